// Rows of the data matrix X (n, d) and the class weights V (d, c) that live beside them.
//
// A loop never sees whether X is dense or sparse, float32 or float64: it asks for the scores x_i . v_k of some classes and
// adds multiples of x_i to some v_k. Each of these looks at the storage once and then runs the kernel of that storage
// (dense.hpp, csr.hpp), so that every loop is compiled once, not once a storage. Weights are always double: float32 data then
// loses no accuracy in the accumulators and needs no float64 copy. The arrays of X are borrowed.
//
// `every` is room for one score per padded class, lent by the caller.
#pragma once

#include <variant>
#include <vector>

#include "csr.hpp"
#include "dense/dense.hpp"

namespace polymargin {

// The columns of a sparse row.
struct Columns {
    const Index* first;
    Size count;
};

class Rows {
public:
    using Storage = std::variant<DenseRows<double>, DenseRows<float>, CsrRows<double>, CsrRows<float>>;

    template <class Stored>
    Rows(const Stored& stored)  // NOLINT: each storage is a matrix of rows
        : stored_(stored), kernels_(kernels_of(stored_)), n_(stored.n_rows()), d_(stored.n_features()), c_(stored.n_classes()), sparse_(Stored::sparse),
          bytes_(stored.bytes()), weights_size_(stored.weights_size()),
          feature_step_(stored.weight_position(1, 0)), class_step_(stored.weight_position(0, 1)) {
        if constexpr (!Stored::sparse) {
            dense_ = reinterpret_cast<const char*>(stored.row(0));
            row_bytes_ = static_cast<Size>(reinterpret_cast<const char*>(stored.row(1)) - dense_);
        }
    }

    Size n_rows() const { return n_; }
    Size n_features() const { return d_; }
    Size n_classes() const { return c_; }
    Size bytes() const { return bytes_; }
    bool is_sparse() const { return sparse_; }
    Size weights_size() const { return weights_size_; }
    Size weight_position(Size feature, Size k) const { return feature * feature_step_ + k * class_step_; }

    double squared_norm(Size i) const;  // 0 where it has no inverse
    double dot_dense(Size i, const double* vector) const;
    void add_to_dense(Size i, double step, double* vector) const;  // vector += step x_i
    void prefetch(Size i) const {
        if (sparse_) return prefetch_sparse(i);
        prefetch_range(dense_ + i * row_bytes_, row_bytes_);
    }
    void copy(Size i, double* out) const;  // into d doubles

    // `out` of all scores has room for the padded number of classes
    void scores(const double* V, Size i, const Index* classes, Size count, double* out, double* every) const {
        kernels_.scores(stored_, V, i, classes, count, out, every);
    }
    void all_scores(const double* V, Size i, double* out) const { kernels_.all_scores(stored_, V, i, out); }

    // Of some rows the scores of the classes from `first` to before `last`, into out[r][k]. Dense rows that are asked for together
    // read the class vectors once; sparse ones find the scores of all classes, one by one.
    void scores_of_rows(const double* V, const Size* rows, Size count, Size first, Size last, double* const* out) const;
    void add(double* V, Size i, const Index* classes, const double* steps, Size count, double* every) const {
        kernels_.add(stored_, V, i, classes, steps, count, every);
    }
    void add_squares(const double* V, double* out) const;  // out_k += |v_k|^2

    // visit(feature, value) of all entries of a row, in order; of sparse rows those that are stored
    template <class Visit>
    void for_each_entry(Size i, const Visit& visit) const {
        std::visit([&](const auto& rows) { rows.for_each_entry(i, visit); }, stored_);
    }

    Columns columns(Size i) const;  // sparse rows only

    // dense rows only
    double dot_rows(Size i, Size j) const;

private:
    // What loops live on, of one storage: found once, not at every call.
    struct Kernels {
        void (*scores)(const Storage&, const double*, Size, const Index*, Size, double*, double*);
        void (*all_scores)(const Storage&, const double*, Size, double*);
        void (*add)(const Storage&, double*, Size, const Index*, const double*, Size, double*);
    };
    static Kernels kernels_of(const Storage& stored);

    void prefetch_sparse(Size i) const;

    Storage stored_;
    Kernels kernels_;
    Size n_, d_, c_;
    bool sparse_;
    Size bytes_, weights_size_, feature_step_, class_step_;
    const char* dense_ = nullptr;  // dense rows: the first, and how long each is
    Size row_bytes_ = 0;
};

}  // namespace polymargin
