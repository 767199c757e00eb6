// Rows of the data matrix X (n, d) and the class weights V (d, c) that live beside them.
//
// `every` is room for one score per padded class, lent by the caller.
// A loop never sees whether X is dense or sparse, float32 or float64: it asks for the scores x_i . v_k of some
// classes and adds multiples of x_i to some v_k. Weights are always double: float32 data then loses no accuracy
// in the accumulators and needs no float64 copy.
//
//   DenseRows   weights class-major, one dot product over the features per class
//   CsrRows     weights feature-major, so that one stored entry of x_i serves all classes from one cache line
#pragma once

#include <cstddef>
#include <cstdint>

#include "pack.hpp"

#if defined(__GNUC__) || defined(__clang__)
#define PM_PREFETCH(address) __builtin_prefetch(address)
#else
#define PM_PREFETCH(address) ((void)0)
#endif

namespace polymargin {

using Index = std::int32_t;  // classes
using Size = std::size_t;    // rows, features, stored entries

// Asks for the cache lines of a range. Rows are visited at random, so the hardware does not see the next one coming; very
// long rows are left to it after their beginning.
inline void prefetch_range(const void* begin, Size bytes) {
    constexpr Size line = 64, most = 64 * line;
    const char* p = static_cast<const char*>(begin);
    for (Size k = 0; k < bytes && k < most; k += line) PM_PREFETCH(p + k);
}

// Rounds up to a whole number of 32-byte vectors of doubles.
inline Size padded(Size count) { return (count + 3) & ~Size{3}; }

// K dot products against one x.
template <int K, class T>
inline void dense_dots(const T* x, const double* const* v, Size d, double* out) {
    Pack even[K], odd[K];
    for (int k = 0; k < K; ++k) even[k] = odd[k] = spread(0.0);
    Size j = 0;
    for (; j + 8 <= d; j += 8) {
        const Pack x0 = load(x + j), x1 = load(x + j + 4);
        for (int k = 0; k < K; ++k) {
            even[k] += x0 * load(v[k] + j);
            odd[k] += x1 * load(v[k] + j + 4);
        }
    }
    for (; j + 4 <= d; j += 4) {
        const Pack x0 = load(x + j);
        for (int k = 0; k < K; ++k) even[k] += x0 * load(v[k] + j);
    }
    for (int k = 0; k < K; ++k) {
        double total = sum(even[k] + odd[k]);
        for (Size r = j; r < d; ++r) total += v[k][r] * static_cast<double>(x[r]);
        out[k] = total;
    }
}

// K dot products against each of two rows.
template <int K, class T>
inline void dense_dots_of_two(const T* x, const T* y, const double* const* v, Size d, double* of_x, double* of_y) {
    Pack with_x[K], with_y[K];
    for (int k = 0; k < K; ++k) with_x[k] = with_y[k] = spread(0.0);
    Size j = 0;
    for (; j + 4 <= d; j += 4) {
        const Pack x0 = load(x + j), y0 = load(y + j);
        for (int k = 0; k < K; ++k) {
            const Pack v0 = load(v[k] + j);
            with_x[k] += x0 * v0;
            with_y[k] += y0 * v0;
        }
    }
    for (int k = 0; k < K; ++k) {
        of_x[k] = sum(with_x[k]);
        of_y[k] = sum(with_y[k]);
        for (Size r = j; r < d; ++r) {
            of_x[k] += v[k][r] * static_cast<double>(x[r]);
            of_y[k] += v[k][r] * static_cast<double>(y[r]);
        }
    }
}

template <class T>
class DenseRows {
public:
    static constexpr bool sparse = false;

    DenseRows(const T* data, Size n_rows, Size n_features, Size n_classes)
        : data_(data), n_(n_rows), d_(n_features), c_(n_classes), stride_(padded(n_features)) {}

    Size n_rows() const { return n_; }
    Size n_features() const { return d_; }
    Size n_classes() const { return c_; }
    Size bytes() const { return n_ * d_ * sizeof(T); }
    Size weights_size() const { return c_ * stride_; }
    Size weight_position(Size feature, Size cls) const { return cls * stride_ + feature; }

    double squared_norm(Size i) const {
        const T* x = row(i);
        double sum = 0.0;
        for (Size j = 0; j < d_; ++j) sum += static_cast<double>(x[j]) * static_cast<double>(x[j]);
        return sum;
    }

    double dot_dense(Size i, const double* vector) const {
        double out;
        dense_dots<1>(row(i), &vector, d_, &out);
        return out;
    }

    void prefetch(Size i) const { prefetch_range(row(i), d_ * sizeof(T)); }

    // The row in d doubles.
    void copy(Size i, double* out) const {
        for (Size j = 0; j < d_; ++j) out[j] = static_cast<double>(row(i)[j]);
    }

    void scores(const double* V, Size i, const Index* classes, Size count, double* out, double* /*every*/) const {
        const T* x = row(i);
        const double* v[4];
        Size k = 0;
        for (; k + 4 <= count; k += 4) {
            for (int u = 0; u < 4; ++u) v[u] = V + static_cast<Size>(classes[k + u]) * stride_;
            dense_dots<4>(x, v, d_, out + k);
        }
        for (Size u = 0; k + u < count; ++u) v[u] = V + static_cast<Size>(classes[k + u]) * stride_;
        last_dots(x, v, count - k, out + k);
    }

    void all_scores(const double* V, Size i, double* out) const {
        const T* x = row(i);
        const double* v[4];
        Size k = 0;
        for (; k + 4 <= c_; k += 4) {
            for (int u = 0; u < 4; ++u) v[u] = V + (k + u) * stride_;
            dense_dots<4>(x, v, d_, out + k);
        }
        for (Size u = 0; k + u < c_; ++u) v[u] = V + (k + u) * stride_;
        last_dots(x, v, c_ - k, out + k);
    }

    // all scores of two rows at once
    void all_scores(const double* V, Size i, Size other, double* out, double* out_of_other) const {
        const double* v[4];
        Size k = 0;
        for (; k + 4 <= c_; k += 4) {
            for (int u = 0; u < 4; ++u) v[u] = V + (k + u) * stride_;
            dense_dots_of_two<4>(row(i), row(other), v, d_, out + k, out_of_other + k);
        }
        for (; k < c_; ++k) {
            v[0] = V + k * stride_;
            dense_dots_of_two<1>(row(i), row(other), v, d_, out + k, out_of_other + k);
        }
    }

    // x_i . x_j
    double dot_rows(Size i, Size j) const {
        const T *x = row(i), *y = row(j);
        Pack even = spread(0.0), odd = even;
        Size k = 0;
        for (; k + 8 <= d_; k += 8) {
            even += load(x + k) * load(y + k);
            odd += load(x + k + 4) * load(y + k + 4);
        }
        double total = sum(even + odd);
        for (; k < d_; ++k) total += static_cast<double>(x[k]) * static_cast<double>(y[k]);
        return total;
    }

    void add(double* V, Size i, const Index* classes, const double* steps, Size count, double* /*every*/) const {
        const T* x = row(i);
        const Size d = d_;
        Size k = 0;
        for (; k + 2 <= count; k += 2) {  // two classes share one reading of the row
            double* u = V + static_cast<Size>(classes[k]) * stride_;
            double* v = V + static_cast<Size>(classes[k + 1]) * stride_;
            const Pack first = spread(steps[k]), second = spread(steps[k + 1]);
            Size j = 0;
            for (; j + 4 <= d; j += 4) {
                const Pack x0 = load(x + j);
                store(u + j, load(u + j) + first * x0);
                store(v + j, load(v + j) + second * x0);
            }
            for (; j < d; ++j) {
                u[j] += steps[k] * static_cast<double>(x[j]);
                v[j] += steps[k + 1] * static_cast<double>(x[j]);
            }
        }
        for (; k < count; ++k) {
            double* v = V + static_cast<Size>(classes[k]) * stride_;
            const Pack step = spread(steps[k]);
            Size j = 0;
            for (; j + 4 <= d; j += 4) store(v + j, load(v + j) + step * load(x + j));
            for (; j < d; ++j) v[j] += steps[k] * static_cast<double>(x[j]);
        }
    }

    // out_k += |v_k|^2
    void add_squares(const double* V, double* out) const {
        for (Size k = 0; k < c_; ++k) {
            const double* v = V + k * stride_;
            for (Size j = 0; j < d_; ++j) out[k] += v[j] * v[j];
        }
    }

private:
    const T* row(Size i) const { return data_ + i * d_; }

    // The up to three classes that fours leave over, together: one alone waits for each sum before the next.
    void last_dots(const T* x, const double* const* v, Size count, double* out) const {
        switch (count) {
            case 3: dense_dots<3>(x, v, d_, out); break;
            case 2: dense_dots<2>(x, v, d_, out); break;
            case 1: dense_dots<1>(x, v, d_, out); break;
            default: break;
        }
    }

    const T* data_;
    Size n_, d_, c_, stride_;
};

template <class T, class I>
class CsrRows {
public:
    static constexpr bool sparse = true;

    CsrRows(const T* data, const I* indices, const I* indptr, Size n_rows, Size n_features, Size n_classes)
        : data_(data), indices_(indices), indptr_(indptr), n_(n_rows), d_(n_features), c_(n_classes),
          stride_(padded(n_classes)) {}

    Size n_rows() const { return n_; }
    Size n_features() const { return d_; }
    Size n_classes() const { return c_; }
    Size bytes() const { return static_cast<Size>(indptr_[n_]) * (sizeof(T) + sizeof(I)); }
    Size weights_size() const { return d_ * stride_; }
    Size weight_position(Size feature, Size cls) const { return feature * stride_ + cls; }

    double squared_norm(Size i) const {
        double sum = 0.0;
        for (I p = indptr_[i]; p < indptr_[i + 1]; ++p) {
            sum += static_cast<double>(data_[p]) * static_cast<double>(data_[p]);
        }
        return sum;
    }

    double dot_dense(Size i, const double* vector) const {
        double sum = 0.0;
        for (I p = indptr_[i]; p < indptr_[i + 1]; ++p) sum += vector[indices_[p]] * static_cast<double>(data_[p]);
        return sum;
    }

    void prefetch(Size i) const {
        const Size begin = static_cast<Size>(indptr_[i]), count = static_cast<Size>(indptr_[i + 1]) - begin;
        prefetch_range(indices_ + begin, count * sizeof(I));
        prefetch_range(data_ + begin, count * sizeof(T));
    }

    // The row in d doubles.
    void copy(Size i, double* out) const {
        for (Size j = 0; j < d_; ++j) out[j] = 0.0;
        for (I p = indptr_[i]; p < indptr_[i + 1]; ++p) out[indices_[p]] = static_cast<double>(data_[p]);
    }

    void scores(const double* V, Size i, const Index* classes, Size count, double* out, double* every) const {
        if (2 * count > c_) {  // most classes wanted: whole cache lines are cheaper than picking
            all_scores(V, i, every);
            for (Size k = 0; k < count; ++k) out[k] = every[classes[k]];
            return;
        }
        Size k = 0;
        for (; k + 4 <= count; k += 4) picked<4>(V, i, classes + k, out + k);
        switch (count - k) {
            case 3: picked<3>(V, i, classes + k, out + k); break;
            case 2: picked<2>(V, i, classes + k, out + k); break;
            case 1: picked<1>(V, i, classes + k, out + k); break;
            default: break;
        }
    }

    // `out` has room for the padded number of classes.
    void all_scores(const double* V, Size i, double* out) const {
        Size k = 0;
        for (; k + 32 <= stride_; k += 32) block<32>(V + k, i, out + k);
        switch (stride_ - k) {
            case 28: block<28>(V + k, i, out + k); break;
            case 24: block<24>(V + k, i, out + k); break;
            case 20: block<20>(V + k, i, out + k); break;
            case 16: block<16>(V + k, i, out + k); break;
            case 12: block<12>(V + k, i, out + k); break;
            case 8: block<8>(V + k, i, out + k); break;
            case 4: block<4>(V + k, i, out + k); break;
            default: break;
        }
    }

    void add(double* V, Size i, const Index* classes, const double* steps, Size count, double* every) const {
        if (4 * count > c_) {  // many classes move: whole vectors are cheaper than picking
            for (Size k = 0; k < stride_; ++k) every[k] = 0.0;
            for (Size k = 0; k < count; ++k) every[classes[k]] = steps[k];
            add_all(V, i, every);
            return;
        }
        Size k = 0;
        for (; k + 4 <= count; k += 4) add_picked<4>(V, i, classes + k, steps + k);
        switch (count - k) {
            case 3: add_picked<3>(V, i, classes + k, steps + k); break;
            case 2: add_picked<2>(V, i, classes + k, steps + k); break;
            case 1: add_picked<1>(V, i, classes + k, steps + k); break;
            default: break;
        }
    }

    // out_k += |v_k|^2
    void add_squares(const double* V, double* out) const {
        for (Size j = 0; j < d_; ++j, V += stride_) {
            for (Size k = 0; k < c_; ++k) out[k] += V[k] * V[k];
        }
    }

private:
    template <int K>
    void picked(const double* V, Size i, const Index* classes, double* out) const {
        double sum[K] = {};
        for (I p = indptr_[i]; p < indptr_[i + 1]; ++p) {
            const double* v = V + static_cast<Size>(indices_[p]) * stride_;
            const double x = static_cast<double>(data_[p]);
            for (int k = 0; k < K; ++k) sum[k] += v[classes[k]] * x;
        }
        for (int k = 0; k < K; ++k) out[k] = sum[k];
    }

    template <int K>
    void add_picked(double* V, Size i, const Index* classes, const double* steps) const {
        double step[K];
        Size at[K];
        for (int k = 0; k < K; ++k) {
            step[k] = steps[k];
            at[k] = static_cast<Size>(classes[k]);
        }
        for (I p = indptr_[i]; p < indptr_[i + 1]; ++p) {
            double* v = V + static_cast<Size>(indices_[p]) * stride_;
            const double x = static_cast<double>(data_[p]);
            for (int k = 0; k < K; ++k) v[at[k]] += step[k] * x;
        }
    }

    void add_all(double* V, Size i, const double* steps) const {
        for (I p = indptr_[i]; p < indptr_[i + 1]; ++p) {
            double* v = V + static_cast<Size>(indices_[p]) * stride_;
            const double x = static_cast<double>(data_[p]);
            const Pack spread_x = spread(x);
            for (Size k = 0; k < stride_; k += 4) store(v + k, load(v + k) + spread_x * load(steps + k));
        }
    }

    template <int K>
    void block(const double* V, Size i, double* out) const {
        Pack sums[K / 4];
        for (int k = 0; k < K / 4; ++k) sums[k] = spread(0.0);
        const I end = indptr_[i + 1];
        for (I p = indptr_[i]; p < end; ++p) {
            if (p + 8 < end) {
                const double* ahead = V + static_cast<Size>(indices_[p + 8]) * stride_;
                for (int k = 0; k < K; k += 8) PM_PREFETCH(ahead + k);
            }
            const double* v = V + static_cast<Size>(indices_[p]) * stride_;
            const Pack x = spread(static_cast<double>(data_[p]));
            for (int k = 0; k < K / 4; ++k) sums[k] += load(v + 4 * k) * x;
        }
        for (int k = 0; k < K / 4; ++k) store(out + 4 * k, sums[k]);
    }

    const T* data_;
    const I* indices_;
    const I* indptr_;
    Size n_, d_, c_, stride_;
};

}  // namespace polymargin
