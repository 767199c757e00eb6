// Checks at the door, and the rows of X.
#include "tools.hpp"

#include "bindings.hpp"

using namespace nb::literals;

namespace polymargin {

void check_starts(const Vector<std::int64_t>& starts, Size n, Size count, const char* name, bool spare) {
    check_size(starts, n + 1, name);
    const std::int64_t* s = starts.data();
    bool fits = s[0] == 0;
    for (Size i = 0; i < n && fits; ++i) fits = s[i] <= s[i + 1];
    fits = fits && (static_cast<Size>(s[n]) == count || (spare && static_cast<Size>(s[n]) < count));
    if (!fits) throw std::invalid_argument(std::string(name) + " does not cut the entries into rows");
}

void check_targets(const Vector<Index>& y, const Vector<double>& cost, Size n, Size n_classes) {
    if (n_classes < 2) throw std::invalid_argument("n_classes must be at least 2");
    check_size(y, n, "y");
    check_size(cost, n, "cost");
    check_range(y, n_classes, "the class list y");
}

void check_duals(const Vector<std::int64_t>& starts, const Vector<Index>& labels, const Vector<double>& values,
                 const DualState& state, Size n_labels) {
    const Size n = state.n_rows();
    const bool has_own = state.rules.absolute && state.rules.own_weight > 0.0, has_rivals = state.rules.rival_weight > 0.0;
    check_starts(starts, n, labels.shape(0), "starts");
    check_size(values, labels.shape(0), "values");
    check_range(labels, n_labels, "classes");
    std::vector<Size> seen(n_labels, 0);  // the last row that had the label, counted from 1
    for (Size i = 0; i < n; ++i) {
        if (!has_own) seen[static_cast<Size>(state.y[i])] = i + 1;
        for (std::int64_t k = starts.data()[i]; k < starts.data()[i + 1]; ++k) {
            if (!has_rivals && labels.data()[k] != state.y[i]) {
                throw std::invalid_argument("a row has a dual for a class other than its own, where classes have no margin");
            }
            Size& last = seen[static_cast<Size>(labels.data()[k])];
            if (last == i + 1) throw std::invalid_argument("a row has a class twice, or a dual for its own class");
            last = i + 1;
        }
    }
}

template <class T>
RowArrays::RowArrays(Matrix<T> X, bool wide)
    : n_(X.shape(0)), d_(X.shape(1)), make_([X, wide](Size c) -> Rows { return DenseRows<T>(X.data(), X.shape(0), X.shape(1), c, wide); }) {}

template <class T>
RowArrays::RowArrays(Vector<T> data, Vector<Index> indices, Vector<std::int64_t> indptr, Size n_features)
    : n_(indptr.shape(0) - 1), d_(n_features), make_([=](Size c) -> Rows {
          return CsrRows<T>(data.data(), indices.data(), indptr.data(), indptr.shape(0) - 1, n_features, c);
      }) {
    if (indptr.shape(0) == 0) throw std::invalid_argument("indptr is empty");
    check_size(indices, data.shape(0), "indices");
    check_starts(indptr, n_, data.shape(0), "indptr", true);
    check_range(indices, n_features, "indices");
}

template <class T>
void bind_storages(nb::class_<RowArrays>& door) {
    door.def(nb::init<Matrix<T>, bool>(), "X"_a.noconvert(), "wide"_a = true)
        .def(nb::init<Vector<T>, Vector<Index>, Vector<std::int64_t>, Size>(), "data"_a.noconvert(), "indices"_a.noconvert(),
             "indptr"_a.noconvert(), "n_features"_a);
}

void bind_storages(nb::module_& m) {
    nb::class_<RowArrays> door(m, "Rows");
    bind_storages<double>(door);
    bind_storages<float>(door);
    door.def_prop_ro("n_rows", &RowArrays::n_rows).def_prop_ro("n_features", &RowArrays::n_features);
}

}  // namespace polymargin
