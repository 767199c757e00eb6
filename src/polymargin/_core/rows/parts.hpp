// Rows that are cut in parts, all at the same columns, for threads that mind the weights of some columns. Sums over a row are then those of
// its parts, added up in pairs: who has found which of them changes no bit.
#pragma once

#include "basics.hpp"

namespace polymargin {

// Some parts of a row, one after the other; a row that is not cut is one part. Their number is a power of two.
struct PartsOfRow {
    Size first, count;
};

// Where weights lie: column j of class k at j * by_column + k * by_class, from column `second` on at j * by_column + k * by_class_then + shift.
struct Layout {
    Size by_column, by_class, second, by_class_then, shift;

    Size at(Size column, Size k) const {
        return column * by_column + (column < second ? k * by_class : k * by_class_then + shift);
    }
};

}  // namespace polymargin
