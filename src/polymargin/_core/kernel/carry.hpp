// What steps of duals add to sums of kernel values:
//
//   S_k += sum_i T_ik K_i     for rows K_i of the kernel matrix, whose steps T_i are zero for most classes.
//
// Rows go in groups and columns in tiles that fit a processor's second cache, so that memory gives each kernel value once for all
// classes of its row. Four rows of a class are added at a time.
#pragma once

#include <algorithm>
#include <vector>

#include "rows/basics.hpp"

namespace polymargin {

template <class T>
class Carry {
public:
    static constexpr Size group = 256, tile = 256;  // rows and columns

    explicit Carry(Size c) : c_(c), sums_(c * tile) {}

    void clear() {
        for (auto& steps : lists_) steps.clear();
        n_rows_ = 0;
    }

    // The steps of another row follow.
    void open_row(const T* row) {
        row_ = row;
        if (n_rows_++ % group == 0 && lists_.size() < n_groups() * c_) lists_.resize(n_groups() * c_);
    }
    void add(Size k, T value) { lists_[(n_groups() - 1) * c_ + k].push_back({row_, value}); }

    // Calls take(k, start, width, sums) with what class k gets in `width` columns from `start` on.
    template <class Take>
    void run(Size columns, const Poll& poll, Take take) {
        for (Size start = 0; start < columns; start += tile) {
            const Size width = std::min(tile, columns - start);
            poll();
            std::fill(sums_.begin(), sums_.end(), T{0});
            for (Size list = 0; list < n_groups() * c_; ++list) {
                add_steps(lists_[list], start, width, sums_.data() + list % c_ * tile);
            }
            for (Size k = 0; k < c_; ++k) {
                if (has_steps(k)) take(k, start, width, sums_.data() + k * tile);
            }
        }
    }

private:
    struct Step {
        const T* row;
        T value;
    };

    Size n_groups() const { return (n_rows_ + group - 1) / group; }

    bool has_steps(Size k) const {
        for (Size g = 0; g < n_groups(); ++g) {
            if (!lists_[g * c_ + k].empty()) return true;
        }
        return false;
    }

    static void add_steps(const std::vector<Step>& steps, Size start, Size width, T* sums) {
        Size e = 0;
        for (; e + 4 <= steps.size(); e += 4) add_four(&steps[e], start, width, sums);
        for (; e < steps.size(); ++e) {
            const T *from = steps[e].row + start, value = steps[e].value;
            for (Size j = 0; j < width; ++j) sums[j] += value * from[j];
        }
    }

    static void add_four(const Step* s, Size start, Size width, T* sums) {
        const T *k0 = s[0].row + start, *k1 = s[1].row + start, *k2 = s[2].row + start, *k3 = s[3].row + start;
        const T v0 = s[0].value, v1 = s[1].value, v2 = s[2].value, v3 = s[3].value;
        for (Size j = 0; j < width; ++j) sums[j] += (v0 * k0[j] + v1 * k1[j]) + (v2 * k2[j] + v3 * k3[j]);
    }

    Size c_, n_rows_ = 0;
    const T* row_ = nullptr;
    std::vector<std::vector<Step>> lists_;  // by group and class
    std::vector<T> sums_;                   // (c, tile)
};

}  // namespace polymargin
