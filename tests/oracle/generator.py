"""What the fixtures share: the numbers that parameters and tokens start from, with numpy."""
import numpy as np

MASK = (1 << 64) - 1


def fnv1a64(text):
    value = 14695981039346656037
    for byte in text.encode():
        value = ((value ^ byte) * 1099511628211) & MASK
    return value


def splitmix64(x):
    with np.errstate(over="ignore"):
        x = np.uint64(x) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def normal(seed, name, shape, stddev, dtype=np.float32):
    key = splitmix64(np.array([seed ^ fnv1a64(name)], dtype=np.uint64))
    i = np.arange(int(np.prod(shape)), dtype=np.uint64)
    with np.errstate(over="ignore"):
        a = splitmix64(key + np.uint64(2) * i)
        b = splitmix64(key + np.uint64(2) * i + np.uint64(1))
    u1 = ((a >> np.uint64(11)).astype(np.float64) + 1.0) / 2.0**53
    u2 = (b >> np.uint64(11)).astype(np.float64) / 2.0**53
    value = stddev * np.sqrt(-2.0 * np.log(u1)) * np.cos(2.0 * np.pi * u2)
    return value.astype(dtype).reshape(shape)


def token_rows(seed, vocab, rows, sequence):
    """[rows, sequence + 1] draws of Knuth's MMIX generator from x = seed: (x >> 33) mod vocab."""
    x, result = seed, []
    for _ in range(rows):
        row = []
        for _ in range(sequence + 1):
            x = (x * 6364136223846793005 + 1442695040888963407) & MASK
            row.append((x >> 33) % vocab)
        result.append(row)
    return np.array(result)
