// The doors to Python, one file each.
#pragma once

#include <nanobind/nanobind.h>

namespace polymargin {

void bind_dual(nanobind::module_& m);  // bind_dual.cpp: the dual loop
void bind_margin_distribution(nanobind::module_& m);

}  // namespace polymargin
