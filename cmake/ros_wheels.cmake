# Passed as CMAKE_PROJECT_INCLUDE when message packages are built on the ROS 2 wheels from PyPI.
#
# The wheels export `<pkg>__rosidl_generator_py` targets whose include directories are those of the machine that built the
# wheels (/opt/python/cp3*/include/...). CMake refuses a target with a directory that does not exist. The generators add
# this machine's Python and NumPy headers themselves, so the foreign directories are dropped.
function(_drop_foreign_include_directories)
  get_property(targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  list(FILTER targets INCLUDE REGEX "__rosidl_generator_py$")
  foreach(target IN LISTS targets)
    get_target_property(directories ${target} INTERFACE_INCLUDE_DIRECTORIES)
    if(directories)
      list(FILTER directories EXCLUDE REGEX "^/opt/python/")
      set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${directories}")
    endif()
  endforeach()
endfunction()
cmake_language(DEFER CALL _drop_foreign_include_directories)
