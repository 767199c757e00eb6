// The doors to Python, one file each.
#pragma once

#include <nanobind/nanobind.h>

namespace polymargin {

void bind_dual(nanobind::module_& m);    // bind_dual.cpp: the dual loop
void bind_kernel(nanobind::module_& m);  // bind_kernel.cpp: working sets of the kernel dual
void bind_labels(nanobind::module_& m);  // bind_labels.cpp: the loop over pairs of rows and labels
void bind_margin_distribution(nanobind::module_& m);
void bind_scores(nanobind::module_& m);  // bind_scores.cpp: passes over the scores

}  // namespace polymargin
