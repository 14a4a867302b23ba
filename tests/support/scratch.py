"""For tests that are told a folder to work in: as scratch.sh beside this."""
import os
import shutil
import sys


def scratch_in(folder):
    """Makes FOLDER/TEST.scratch, empty, and returns its whole path; whatever else stands in FOLDER stays."""
    name = os.path.splitext(os.path.basename(sys.argv[0]))[0] + ".scratch"
    scratch = os.path.join(os.path.realpath(folder), name)
    shutil.rmtree(scratch, ignore_errors=True)
    os.makedirs(scratch)
    return scratch
