// Sparse rows and their class weights, feature by feature: one stored entry of x_i serves all classes from one cache line.
#pragma once

#include "basics.hpp"
#include "pack.hpp"

namespace polymargin {

template <class T>
class CsrRows {
public:
    static constexpr bool sparse = true;

    CsrRows(const T* data, const Index* indices, const std::int64_t* indptr, Size n_rows, Size n_features, Size n_classes)
        : data_(data), indices_(indices), indptr_(indptr), n_(n_rows), d_(n_features), c_(n_classes),
          stride_(padded(n_classes)) {}

    Size n_rows() const { return n_; }
    Size n_features() const { return d_; }
    Size n_classes() const { return c_; }
    Size bytes() const { return static_cast<Size>(indptr_[n_]) * (sizeof(T) + sizeof(Index)); }
    Size weights_size() const { return d_ * stride_; }
    Size weight_position(Size feature, Size cls) const { return feature * stride_ + cls; }

    double squared_norm(Size i) const {
        double sum = 0.0;
        for (std::int64_t p = indptr_[i]; p < indptr_[i + 1]; ++p) {
            sum += static_cast<double>(data_[p]) * static_cast<double>(data_[p]);
        }
        return sum;
    }

    // Four sums at a time: one would wait for each of its additions.
    double dot_dense(Size i, const double* vector) const {
        const std::int64_t end = indptr_[i + 1];
        const auto product = [&](std::int64_t p) { return vector[indices_[p]] * static_cast<double>(data_[p]); };
        double sums[4] = {};
        std::int64_t p = indptr_[i];
        for (; p + 4 <= end; p += 4) {
            for (int k = 0; k < 4; ++k) sums[k] += product(p + k);
        }
        for (; p < end; ++p) sums[0] += product(p);
        return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }

    void prefetch(Size i) const {
        const Size begin = static_cast<Size>(indptr_[i]), count = static_cast<Size>(indptr_[i + 1]) - begin;
        prefetch_range(indices_ + begin, count * sizeof(Index));
        prefetch_range(data_ + begin, count * sizeof(T));
    }

    const Index* columns(Size i) const { return indices_ + indptr_[i]; }
    Size n_stored(Size i) const { return static_cast<Size>(indptr_[i + 1] - indptr_[i]); }

    template <class Visit>
    void for_each_entry(Size i, const Visit& visit) const {
        for (std::int64_t p = indptr_[i]; p < indptr_[i + 1]; ++p) visit(static_cast<Size>(indices_[p]), static_cast<double>(data_[p]));
    }

    // The row in d doubles.
    void copy(Size i, double* out) const {
        for (Size j = 0; j < d_; ++j) out[j] = 0.0;
        for (std::int64_t p = indptr_[i]; p < indptr_[i + 1]; ++p) out[indices_[p]] = static_cast<double>(data_[p]);
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

    // vector += step x_i
    void add_to_dense(Size i, double step, double* vector) const {
        for (std::int64_t p = indptr_[i]; p < indptr_[i + 1]; ++p) vector[indices_[p]] += step * static_cast<double>(data_[p]);
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
        for (std::int64_t p = indptr_[i]; p < indptr_[i + 1]; ++p) {
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
        for (std::int64_t p = indptr_[i]; p < indptr_[i + 1]; ++p) {
            double* v = V + static_cast<Size>(indices_[p]) * stride_;
            const double x = static_cast<double>(data_[p]);
            for (int k = 0; k < K; ++k) v[at[k]] += step[k] * x;
        }
    }

    void add_all(double* V, Size i, const double* steps) const {
        Size k = 0;
        for (; k + 32 <= stride_; k += 32) add_block<32>(V + k, i, steps + k);
        switch (stride_ - k) {
            case 28: add_block<28>(V + k, i, steps + k); break;
            case 24: add_block<24>(V + k, i, steps + k); break;
            case 20: add_block<20>(V + k, i, steps + k); break;
            case 16: add_block<16>(V + k, i, steps + k); break;
            case 12: add_block<12>(V + k, i, steps + k); break;
            case 8: add_block<8>(V + k, i, steps + k); break;
            case 4: add_block<4>(V + k, i, steps + k); break;
            default: break;
        }
    }

    // The steps stay in registers.
    template <int K>
    void add_block(double* V, Size i, const double* steps) const {
        Pack step[K / 4];
        for (int k = 0; k < K / 4; ++k) step[k] = load(steps + 4 * k);
        for (std::int64_t p = indptr_[i]; p < indptr_[i + 1]; ++p) {
            double* v = V + static_cast<Size>(indices_[p]) * stride_;
            const Pack x = spread(static_cast<double>(data_[p]));
            for (int k = 0; k < K / 4; ++k) store(v + 4 * k, load(v + 4 * k) + x * step[k]);
        }
    }

    template <int K>
    void block(const double* V, Size i, double* out) const {
        Pack sums[K / 4];
        for (int k = 0; k < K / 4; ++k) sums[k] = spread(0.0);
        const std::int64_t end = indptr_[i + 1];
        for (std::int64_t p = indptr_[i]; p < end; ++p) {
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
    const Index* indices_;
    const std::int64_t* indptr_;
    Size n_, d_, c_, stride_;
};

}  // namespace polymargin
