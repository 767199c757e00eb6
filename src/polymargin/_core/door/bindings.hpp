// The doors to Python, one file each.
#pragma once

#include <nanobind/nanobind.h>

namespace polymargin {

void bind_storages(nanobind::module_& m);  // tools.cpp: rows of X
void bind_rows(nanobind::module_& m);      // bind_rows.cpp: the row loop
void bind_kernel(nanobind::module_& m);    // bind_kernel.cpp: working sets of the kernel dual
void bind_labels(nanobind::module_& m);    // bind_labels.cpp: the loop over pairs of rows and labels
void bind_band(nanobind::module_& m);      // bind_band.cpp: the loop of the margin distribution machine
void bind_scores(nanobind::module_& m);    // bind_scores.cpp: passes over the scores

}  // namespace polymargin
