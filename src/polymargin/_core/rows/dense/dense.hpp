// Dense rows and their class weights, class by class: one dot product over the features per class.
#pragma once

#include "rows/basics.hpp"
#include "wide.hpp"
#include "rows/pack.hpp"

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

// Eight doubles in two packs.
struct TwoPacks {
    struct Eight {
        Pack low, high;
    };
    static constexpr int rows_of_tile = 2;  // beside three class vectors: what they need stays in registers

    static Eight zero() { return {polymargin::spread(0.0), polymargin::spread(0.0)}; }
    static Eight spread(double value) { return {polymargin::spread(value), polymargin::spread(value)}; }
    template <class T>
    static Eight load(const T* from) {
        return {polymargin::load(from), polymargin::load(from + 4)};
    }
    template <class T>
    static Eight load_four(const T* from) {  // and four zeros
        return {polymargin::load(from), polymargin::spread(0.0)};
    }
    static void store(double* to, const Eight& eight) {
        polymargin::store(to, eight.low);
        polymargin::store(to + 4, eight.high);
    }
    static void store_four(double* to, const Eight& eight) { polymargin::store(to, eight.low); }
    static void add_product(Eight& sum, const Eight& a, const Eight& b) {
        sum.low += a.low * b.low;
        sum.high += a.high * b.high;
    }
    static void add_four_products(Eight& sum, const Eight& a, const Eight& b) { sum.low += a.low * b.low; }
    static double sum(const Eight& eight) { return polymargin::sum(eight.low + eight.high); }
};

template <class T>
class DenseRows {
public:
    static constexpr bool sparse = false;
    using Kernels = DenseKernels<TwoPacks, T>;

    // `wide`: with the widest registers of this processor, where rows are long enough
    DenseRows(const T* data, Size n_rows, Size n_features, Size n_classes, bool wide = true)
        : rows_{data, n_features, padded(n_features)}, wide_(wide && n_features >= shortest_wide ? WideKernels<T>::of_this_processor() : nullptr),
          n_(n_rows), c_(n_classes) {}

    Size n_rows() const { return n_; }
    Size n_features() const { return rows_.d; }
    Size n_classes() const { return c_; }
    Size bytes() const { return n_ * rows_.d * sizeof(T); }
    Size weights_size() const { return c_ * rows_.stride; }
    Size weight_position(Size feature, Size cls) const { return cls * rows_.stride + feature; }

    double squared_norm(Size i) const {
        return dot_rows(i, i);
    }

    double dot_dense(Size i, const double* vector) const {
        double out;
        dense_dots<1>(row(i), &vector, rows_.d, &out);
        return out;
    }

    void prefetch(Size i) const { prefetch_range(row(i), rows_.d * sizeof(T)); }

    template <class Visit>
    void for_each_entry(Size i, const Visit& visit) const {
        for (Size j = 0; j < rows_.d; ++j) visit(j, static_cast<double>(row(i)[j]));
    }

    // The row in d doubles.
    void copy(Size i, double* out) const {
        for (Size j = 0; j < rows_.d; ++j) out[j] = static_cast<double>(row(i)[j]);
    }

    void scores(const double* V, Size i, const Index* classes, Size count, double* out, double* /*every*/) const {
        if (wide_) return wide_->scores(rows_, V, i, classes, count, out);
        Kernels::scores(rows_, V, i, classes, count, out);
    }

    void all_scores(const double* V, Size i, double* out) const { scores(V, i, nullptr, c_, out, nullptr); }

    // Scores of some classes of some rows, out[r][k].
    void scores_of_rows(const double* V, const Size* rows, Size count, Size first, Size last, double* const* out) const {
        if (wide_) return wide_->scores_of_rows(rows_, V, rows, count, first, last, out);
        Kernels::scores_of_rows(rows_, V, rows, count, first, last, out);
    }

    // x_i . x_j
    double dot_rows(Size i, Size j) const {
        const T *x = row(i), *y = row(j);
        Pack even = spread(0.0), odd = even;
        Size k = 0;
        for (; k + 8 <= rows_.d; k += 8) {
            even += load(x + k) * load(y + k);
            odd += load(x + k + 4) * load(y + k + 4);
        }
        double total = sum(even + odd);
        for (; k < rows_.d; ++k) total += static_cast<double>(x[k]) * static_cast<double>(y[k]);
        return total;
    }

    void add(double* V, Size i, const Index* classes, const double* steps, Size count, double* /*every*/) const {
        if (wide_) return wide_->add(rows_, V, i, classes, steps, count);
        Kernels::add(rows_, V, i, classes, steps, count);
    }

    // vector += step x_i
    void add_to_dense(Size i, double step, double* vector) const {
        const T* x = row(i);
        const Pack spread_step = spread(step);
        Size j = 0;
        for (; j + 4 <= rows_.d; j += 4) store(vector + j, load(vector + j) + spread_step * load(x + j));
        for (; j < rows_.d; ++j) vector[j] += step * static_cast<double>(x[j]);
    }

    // out_k += |v_k|^2
    void add_squares(const double* V, double* out) const {
        for (Size k = 0; k < c_; ++k) {
            const double* v = V + k * rows_.stride;
            for (Size j = 0; j < rows_.d; ++j) out[k] += v[j] * v[j];
        }
    }

    const T* row(Size i) const { return rows_.row(i); }

private:
    static constexpr Size shortest_wide = 64;  // columns

    DenseData<T> rows_;
    const WideKernels<T>* wide_;  // or none
    Size n_, c_;
};

}  // namespace polymargin
