// The doors to Python, one file each.
#pragma once

#include <nanobind/nanobind.h>

namespace polymargin {

void bind_dual(nanobind::module_& m);  // bind_dual.cpp: the dual loop
void bind_kernel(nanobind::module_& m);  // bind_kernel.cpp: working sets of the kernel dual

}  // namespace polymargin
