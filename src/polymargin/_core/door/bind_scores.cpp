// Python's door to the passes over scores.
#include <nanobind/stl/optional.h>

#include <optional>

#include "passes/pair_matrix.hpp"
#include "passes/score_kernels.hpp"
#include "bindings.hpp"
#include "tools.hpp"

using namespace nb::literals;

namespace polymargin {
namespace {

using Array = Changed<double, 2>;
using Classes = Vector<Index>;
using Maybe = std::optional<Matrix<double>>;

const double* data_or_null(const Maybe& matrix) { return matrix ? matrix->data() : nullptr; }

template <class First, class... Rest>
void same_shape(const First& first, const Rest&... rest) {
    if (!((rest.shape(0) == first.shape(0) && rest.shape(1) == first.shape(1)) && ...)) {
        throw std::invalid_argument("arrays of scores differ in shape");
    }
}

void check_labels(const Classes& y, Size n, Size c) {
    check_size(y, n, "y");
    check_range(y, c, "the class list y");
}

void check_costs(const Vector<double>& cost, Size n) { check_size(cost, n, "cost"); }

Pairs pairs_of(const Classes& y, Array& S, Array& A, Array& B, Array& xi, Array& s) {
    same_shape(S, A, B, xi, s);
    check_labels(y, S.shape(0), S.shape(1));
    return {y.data(), S.data(), A.data(), B.data(), xi.data(), s.data(), S.shape(0), S.shape(1)};
}

}  // namespace

void bind_scores(nb::module_& m) {
    m.def("start_pairs",
          [](Classes y, Vector<double> cost, double mu, Array S, Array A, Array B, Array xi, Array s) {
              check_costs(cost, S.shape(0));
              const Pairs pairs = pairs_of(y, S, A, B, xi, s);
              without_gil([&](const Poll& poll) { start_pairs(pairs, cost.data(), mu, poll); });
          }, "y"_a, "cost"_a, "mu"_a, "S"_a, "A"_a, "B"_a, "xi"_a, "s"_a);
    m.def("pair_system",
          [](Classes y, double mu, Array S, Array A, Array B, Array xi, Array s, Maybe predictor, Array T, Array omega) {
              const Pairs pairs = pairs_of(y, S, A, B, xi, s);
              same_shape(S, T, omega);
              if (predictor) same_shape(S, *predictor);
              without_gil([&](const Poll& poll) {
                  pair_system(pairs, mu, data_or_null(predictor), T.data(), omega.data(), poll);
              });
          }, "y"_a, "mu"_a, "S"_a, "A"_a, "B"_a, "xi"_a, "s"_a, "predictor"_a.none(), "T"_a, "omega"_a);
    m.def("assess_step",
          [](Classes y, double mu, Array S, Array A, Array B, Array xi, Array s, Matrix<double> dS, Maybe predictor) {
              const Pairs pairs = pairs_of(y, S, A, B, xi, s);
              same_shape(S, dS);
              if (predictor) same_shape(S, *predictor);
              const StepReport r = without_gil([&](const Poll& poll) {
                  return assess_step(pairs, mu, dS.data(), data_or_null(predictor), poll);
              });
              return std::make_tuple(r.longest_primal, r.longest_dual, r.c0, r.cp, r.cd, r.cpd, r.curvature);
          }, "y"_a, "mu"_a, "S"_a, "A"_a, "B"_a, "xi"_a, "s"_a, "dS"_a, "predictor"_a.none());
    m.def("take_step",
          [](Classes y, double mu, Array S, Array A, Array B, Array xi, Array s, Matrix<double> dS, Maybe predictor,
             double primal, double dual) {
              const Pairs pairs = pairs_of(y, S, A, B, xi, s);
              same_shape(S, dS);
              if (predictor) same_shape(S, *predictor);
              without_gil([&](const Poll& poll) {
                  take_step(pairs, mu, dS.data(), data_or_null(predictor), primal, dual, poll);
              });
          }, "y"_a, "mu"_a, "S"_a, "A"_a, "B"_a, "xi"_a, "s"_a, "dS"_a, "predictor"_a.none(), "primal"_a, "dual"_a);
    m.def("hinge_value",
          [](Matrix<double> S, Classes y, Vector<double> cost, double t) {
              check_labels(y, S.shape(0), S.shape(1));
              check_costs(cost, S.shape(0));
              return without_gil([&](const Poll& poll) {
                  return hinge_value(S.data(), y.data(), cost.data(), S.shape(0), S.shape(1), t, poll);
              });
          }, "S"_a, "y"_a, "cost"_a, "t"_a);
    m.def("pair_matrix",
          [](Matrix<double> K, Classes rows, Classes own, Classes rivals, Matrix<double> P, Array M) {
              const Size n = M.shape(0);
              if (K.shape(1) != K.shape(0) || P.shape(1) != P.shape(0) || M.shape(1) != n) {
                  throw std::invalid_argument("matrices are not square");
              }
              check_labels(rows, n, K.shape(0));
              check_labels(own, n, P.shape(0));
              check_labels(rivals, n, P.shape(0));
              const PairList pairs{rows.data(), own.data(), rivals.data(), n};
              without_gil([&](const Poll& poll) { pair_matrix(K.data(), K.shape(0), pairs, P.data(), P.shape(0), M.data(), poll); });
          }, "K"_a, "rows"_a, "own"_a, "rivals"_a, "P"_a, "M"_a);
    m.def("star_product",
          [](Matrix<double> omega, Classes y, Array V) {
              same_shape(V, omega);
              check_labels(y, V.shape(0), V.shape(1));
              without_gil([&](const Poll& poll) {
                  star_product(omega.data(), y.data(), V.data(), V.shape(0), V.shape(1), poll);
              });
          }, "omega"_a, "y"_a, "V"_a);
    m.def("pairwise_logistic",
          [](Matrix<double> S, Classes y, Vector<double> cost, Array T, Array omega) {
              same_shape(S, T, omega);
              check_labels(y, S.shape(0), S.shape(1));
              check_costs(cost, S.shape(0));
              return without_gil([&](const Poll& poll) {
                  return pairwise_logistic(S.data(), y.data(), cost.data(), T.data(), omega.data(), S.shape(0), S.shape(1),
                                           poll);
              });
          }, "S"_a, "y"_a, "cost"_a, "T"_a, "omega"_a);
    m.def("softmax",
          [](Matrix<double> S, Classes y, Vector<double> cost, Array T, Array P) {
              same_shape(S, T, P);
              check_labels(y, S.shape(0), S.shape(1));
              check_costs(cost, S.shape(0));
              return without_gil([&](const Poll& poll) {
                  return softmax(S.data(), y.data(), cost.data(), T.data(), P.data(), S.shape(0), S.shape(1), poll);
              });
          }, "S"_a, "y"_a, "cost"_a, "T"_a, "P"_a);
    m.def("softmax_product",
          [](Matrix<double> P, Vector<double> cost, Array V) {
              same_shape(V, P);
              check_costs(cost, V.shape(0));
              without_gil([&](const Poll& poll) {
                  softmax_product(P.data(), cost.data(), V.data(), V.shape(0), V.shape(1), poll);
              });
          }, "P"_a, "cost"_a, "V"_a);
}

}  // namespace polymargin
