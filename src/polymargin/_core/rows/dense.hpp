// Dense rows and their class weights, class by class: one dot product over the features per class.
#pragma once

#include "basics.hpp"
#include "pack.hpp"

namespace polymargin {

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

// Dot products of R rows with K class vectors. Each is one chain of sums, whatever R and K are: how rows and classes are put together
// changes no bit. Twelve chains keep a processor busy, and what they need stays in registers.
template <int R, int K, class T>
inline void dense_tile(const T* const* x, const double* const* v, Size d, double* const* out, Size first) {
    Pack sums[R][K];
    for (int r = 0; r < R; ++r) {
        for (int k = 0; k < K; ++k) sums[r][k] = spread(0.0);
    }
    Size j = 0;
    for (; j + 4 <= d; j += 4) {
        Pack entries[K];
        for (int k = 0; k < K; ++k) entries[k] = load(v[k] + j);
        for (int r = 0; r < R; ++r) {
            const Pack of_row = load(x[r] + j);
            for (int k = 0; k < K; ++k) sums[r][k] += of_row * entries[k];
        }
    }
    for (int r = 0; r < R; ++r) {
        for (int k = 0; k < K; ++k) {
            double total = sum(sums[r][k]);
            for (Size rest = j; rest < d; ++rest) total += v[k][rest] * static_cast<double>(x[r][rest]);
            out[r][first + static_cast<Size>(k)] = total;
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
        return dot_rows(i, i);
    }

    double dot_dense(Size i, const double* vector) const {
        double out;
        dense_dots<1>(row(i), &vector, d_, &out);
        return out;
    }

    void prefetch(Size i) const { prefetch_range(row(i), d_ * sizeof(T)); }

    template <class Visit>
    void for_each_entry(Size i, const Visit& visit) const {
        for (Size j = 0; j < d_; ++j) visit(j, static_cast<double>(row(i)[j]));
    }

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

    // Scores of some classes of some rows, out[r][k]: a few class vectors at a time are read once for all rows.
    void scores_of_rows(const double* V, const Size* rows, Size count, Size first, Size last, double* const* out) const {
        for (Size k = first; k < last; k += 3) {
            switch (last - k) {
                case 1: columns_of_tiles<1>(V, rows, count, k, out); break;
                case 2: columns_of_tiles<2>(V, rows, count, k, out); break;
                default: columns_of_tiles<3>(V, rows, count, k, out); break;
            }
        }
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
        for (; k < count; ++k) add_to_dense(i, steps[k], V + static_cast<Size>(classes[k]) * stride_);
    }

    // vector += step x_i
    void add_to_dense(Size i, double step, double* vector) const {
        const T* x = row(i);
        const Pack spread_step = spread(step);
        Size j = 0;
        for (; j + 4 <= d_; j += 4) store(vector + j, load(vector + j) + spread_step * load(x + j));
        for (; j < d_; ++j) vector[j] += step * static_cast<double>(x[j]);
    }

    // out_k += |v_k|^2
    void add_squares(const double* V, double* out) const {
        for (Size k = 0; k < c_; ++k) {
            const double* v = V + k * stride_;
            for (Size j = 0; j < d_; ++j) out[k] += v[j] * v[j];
        }
    }

    const T* row(Size i) const { return data_ + i * d_; }

private:
    template <int K>
    void columns_of_tiles(const double* V, const Size* rows, Size count, Size first, double* const* out) const {
        const double* v[K];
        for (int k = 0; k < K; ++k) v[k] = V + (first + static_cast<Size>(k)) * stride_;
        for (Size r = 0; r < count; r += 4) {
            const T* x[4];
            const Size together = count - r < 4 ? count - r : 4;
            for (Size u = 0; u < together; ++u) x[u] = row(rows[r + u]);
            switch (together) {
                case 1: dense_tile<1, K>(x, v, d_, out + r, first); break;
                case 2: dense_tile<2, K>(x, v, d_, out + r, first); break;
                case 3: dense_tile<3, K>(x, v, d_, out + r, first); break;
                default: dense_tile<4, K>(x, v, d_, out + r, first); break;
            }
        }
    }

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

}  // namespace polymargin
