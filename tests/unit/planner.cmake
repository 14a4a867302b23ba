sw_test(unit_links SOURCES test_links.c LIBRARIES sw_planner)
sw_test(unit_segments SOURCES test_segments.c LIBRARIES sw_planner)
sw_test(unit_cost SOURCES test_cost.c LIBRARIES sw_planner)
sw_test(unit_cost_rings SOURCES test_cost_rings.c LIBRARIES sw_planner)
sw_test(unit_products SOURCES test_products.c LIBRARIES sw_cost)
sw_test(unit_skinny_gemm SOURCES test_skinny_gemm.c LIBRARIES sw_cost)
sw_test(unit_workload SOURCES test_workload.c LIBRARIES sw_cost)
sw_test(unit_chip_serving SOURCES test_chip_serving.c LIBRARIES sw_cost)
sw_test(unit_checkpoint_cost SOURCES test_checkpoint_cost.c LIBRARIES sw_planner)
sw_test(unit_traffic SOURCES test_traffic.c LIBRARIES sw_plan sw_cost)
# The thread sanitizer sees searches for all rows and for few, by all threads at once; what they find, the other builds.
set(sw_search_tests)
if(SW_SANITIZE MATCHES "thread")
  set(sw_search_tests same_every_time)
endif()
sw_test(unit_budget SOURCES test_budget.c LIBRARIES sw_planner)
sw_test(unit_search SOURCES test_search.c LIBRARIES sw_planner ARGS ${sw_search_tests})
sw_test(unit_search_serving SOURCES test_search_serving.c LIBRARIES sw_planner)
sw_test(unit_search_rings SOURCES test_search_rings.c LIBRARIES sw_planner)
sw_test(unit_process SOURCES test_process.c LIBRARIES sw_planner)
sw_test(unit_limits SOURCES test_limits.c LIBRARIES sw_planner)
sw_test(unit_budgets SOURCES test_budgets.c LIBRARIES sw_planner)
sw_test(unit_slurm SOURCES test_slurm.c LIBRARIES sw_planner)
sw_test(unit_supervise SOURCES test_supervise.c LIBRARIES sw_planner)
sw_test(unit_supervised_job SOURCES test_supervised_job.c LIBRARIES sw_planner
        ARGS ${CMAKE_BINARY_DIR}/tests/supervised_job)
sw_test(unit_submission SOURCES test_submission.c LIBRARIES sw_run ARGS ${CMAKE_BINARY_DIR}/tests/submission)
sw_test(unit_controller SOURCES test_controller.c LIBRARIES sw_planner ARGS ${CMAKE_BINARY_DIR}/tests/controller)
if(SW_PYTHON3)
  add_test(NAME unit_import_sites
           COMMAND ${SW_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/test_import_sites.py $<TARGET_FILE:plan>
                   ${CMAKE_BINARY_DIR}/tests/import_sites
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  add_test(NAME unit_frontier_cli
           COMMAND ${SW_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/test_frontier_cli.py $<TARGET_FILE:plan>
                   ${CMAKE_BINARY_DIR}/tests/frontier_cli
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  add_test(NAME unit_placement
           COMMAND ${SW_PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/test_placement.py $<TARGET_FILE:plan>
                   ${CMAKE_BINARY_DIR}/tests/placement
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
endif()
sw_test(unit_template SOURCES test_template.c LIBRARIES sw_planner)
add_test(NAME unit_plan_cli
         COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_plan_cli.sh $<TARGET_FILE:plan>
                 ${CMAKE_BINARY_DIR}/tests/plan_cli
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
add_test(NAME unit_script_head
         COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_script_head.sh $<TARGET_FILE:plan>
                 ${CMAKE_BINARY_DIR}/tests/script_head
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
add_test(NAME unit_site_cli
         COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_site_cli.sh $<TARGET_FILE:plan>
                 ${CMAKE_BINARY_DIR}/tests/site_cli
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
add_test(NAME unit_jobs_cli
         COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_jobs_cli.sh $<TARGET_FILE:plan> $<TARGET_FILE:runner>
                 ${CMAKE_BINARY_DIR}/tests/jobs_cli
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
add_test(NAME unit_slurm_environment
         COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_slurm_environment.sh $<TARGET_FILE:plan>
                 ${CMAKE_BINARY_DIR}/tests/slurm_variables
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
if(TARGET runner)
  add_test(NAME unit_inference_job
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_inference_job.sh $<TARGET_FILE:plan> $<TARGET_FILE:runner>
                   ${CMAKE_BINARY_DIR}/tests/inference_job
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  add_test(NAME unit_training_job
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_training_job.sh $<TARGET_FILE:plan> $<TARGET_FILE:runner>
                   ${CMAKE_BINARY_DIR}/tests/training_job
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
endif()
sw_label(threads unit_search unit_supervise)
add_test(NAME unit_published_configs
         COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_published_configs.sh $<TARGET_FILE:plan>
                 ${CMAKE_BINARY_DIR}/tests/published_configs
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
