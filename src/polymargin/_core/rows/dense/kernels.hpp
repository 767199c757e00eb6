// Scores and steps of dense rows, in registers of any width: `Lanes` are eight doubles that move together, in two registers of four or in
// one. Each sum is eight chains, whatever the width and however rows and classes are put together: that changes no bit.
// Class vectors end with zeros, up to whole fours, so that no number is left over: what a compiler does with such is its own affair.
//
// A source of its own compiles them for processors with wide registers (wide.cpp), so what is here knows nothing but arrays.
#pragma once

#include "rows/basics.hpp"

namespace polymargin {

// Rows (n, d), and class vectors so far from each other.
template <class T>
struct DenseData {
    const T* data;
    Size d, stride;

    const T* row(Size i) const { return data + i * d; }
};

template <class Lanes, class T>
class DenseKernels {
public:
    // Of some classes, or the first `count` ones if there is no list.
    static void scores(const DenseData<T>& rows, const double* V, Size i, const Index* classes, Size count, double* out) {
        Size k = 0;
        for (; k + 4 <= count; k += 4) dots<4>(rows, V, i, classes, k, out);
        switch (count - k) {  // together: one alone waits for each sum before the next
            case 3: dots<3>(rows, V, i, classes, k, out); break;
            case 2: dots<2>(rows, V, i, classes, k, out); break;
            case 1: dots<1>(rows, V, i, classes, k, out); break;
            default: break;
        }
    }

    // Of some classes of some rows, out[r][k]: a few class vectors at a time are read once for all rows.
    static void scores_of_rows(const DenseData<T>& rows, const double* V, const Size* numbers, Size count, Size first, Size last,
                               double* const* out) {
        for (Size k = first; k < last; k += 3) {
            switch (last - k) {
                case 1: tiles<Lanes::rows_of_tile, 1>(rows, V, numbers, count, k, out); break;
                case 2: tiles<Lanes::rows_of_tile, 2>(rows, V, numbers, count, k, out); break;
                default: tiles<Lanes::rows_of_tile, 3>(rows, V, numbers, count, k, out); break;
            }
        }
    }

    // v_k += step_k x_i
    static void add(const DenseData<T>& rows, double* V, Size i, const Index* classes, const double* steps, Size count) {
        Size k = 0;
        for (; k + 2 <= count; k += 2) add_to<2>(rows, V, i, classes + k, steps + k);  // two classes share one reading of the row
        if (k < count) add_to<1>(rows, V, i, classes + k, steps + k);
    }

private:
    // sums[r * K + k] of R rows x and K class vectors v
    template <int R, int K>
    static PM_INLINE void sum_up(const T* const* x, const double* const* v, Size d, double* sums) {
        typename Lanes::Eight eights[R][K];
        for (int r = 0; r < R; ++r) {
            for (int k = 0; k < K; ++k) eights[r][k] = Lanes::zero();
        }
        Size j = 0;
        for (; j + 8 <= d; j += 8) {
            typename Lanes::Eight of_class[K];
            for (int k = 0; k < K; ++k) of_class[k] = Lanes::load(v[k] + j);
            for (int r = 0; r < R; ++r) {
                const auto of_row = Lanes::load(x[r] + j);
                for (int k = 0; k < K; ++k) Lanes::add_product(eights[r][k], of_row, of_class[k]);
            }
        }
        for (; j < d; j += 4) {
            for (int r = 0; r < R; ++r) {
                const auto of_row = up_to_four(x[r], j, d);
                for (int k = 0; k < K; ++k) Lanes::add_four_products(eights[r][k], of_row, Lanes::load_four(v[k] + j));
            }
        }
        for (int r = 0; r < R; ++r) {
            for (int k = 0; k < K; ++k) sums[r * K + k] = Lanes::sum(eights[r][k]);
        }
    }

    template <int K>
    static PM_INLINE void dots(const DenseData<T>& rows, const double* V, Size i, const Index* classes, Size k, double* out) {
        const T* x = rows.row(i);
        const double* v[K];
        for (int u = 0; u < K; ++u) {
            const Size at = k + static_cast<Size>(u);
            v[u] = V + (classes ? static_cast<Size>(classes[at]) : at) * rows.stride;
        }
        sum_up<1, K>(&x, v, rows.d, out + k);
    }

    // As many rows at a time as there are registers for, then half as many.
    template <int R, int K>
    static void tiles(const DenseData<T>& rows, const double* V, const Size* numbers, Size count, Size first, double* const* out) {
        const double* v[K];
        for (Size k = 0; k < K; ++k) v[k] = V + (first + k) * rows.stride;
        Size r = 0;
        for (; r + R <= count; r += R) {
            const T* x[R];
            for (Size u = 0; u < R; ++u) x[u] = rows.row(numbers[r + u]);
            double sums[R * K];
            sum_up<R, K>(x, v, rows.d, sums);
            for (Size u = 0; u < R; ++u) {
                for (Size k = 0; k < K; ++k) out[r + u][first + k] = sums[u * K + k];
            }
        }
        if constexpr (R > 1) {
            if (r < count) tiles<R / 2, K>(rows, V, numbers + r, count - r, first, out + r);
        }
    }

    template <int K>
    static PM_INLINE void add_to(const DenseData<T>& rows, double* V, Size i, const Index* classes, const double* steps) {
        const T* x = rows.row(i);
        double* v[K];
        typename Lanes::Eight step[K];
        for (int k = 0; k < K; ++k) {
            v[k] = V + static_cast<Size>(classes[k]) * rows.stride;
            step[k] = Lanes::spread(steps[k]);
        }
        Size j = 0;
        for (; j + 8 <= rows.d; j += 8) {
            const auto of_row = Lanes::load(x + j);
            for (int k = 0; k < K; ++k) {
                auto sum = Lanes::load(v[k] + j);
                Lanes::add_product(sum, step[k], of_row);
                Lanes::store(v[k] + j, sum);
            }
        }
        for (; j < rows.d; j += 4) {
            const auto of_row = up_to_four(x, j, rows.d);
            for (int k = 0; k < K; ++k) {
                auto sum = Lanes::load_four(v[k] + j);
                Lanes::add_four_products(sum, step[k], of_row);
                Lanes::store_four(v[k] + j, sum);
            }
        }
    }

    // Of a row from column j on, and zeros.
    static PM_INLINE typename Lanes::Eight up_to_four(const T* x, Size j, Size d) {
        if (j + 4 <= d) return Lanes::load_four(x + j);
        const double few[4] = {static_cast<double>(x[j]), j + 1 < d ? static_cast<double>(x[j + 1]) : 0.0,
                               j + 2 < d ? static_cast<double>(x[j + 2]) : 0.0, 0.0};
        return Lanes::load_four(few);
    }
};

}  // namespace polymargin
