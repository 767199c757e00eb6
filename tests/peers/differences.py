"""Tests of scikit-learn that our stand-ins fail, and why that is right. One that passes is an error: take it out.

Each reason is one of a contract that is another here, on purpose, or of something that the test itself takes from LIBSVM or
LIBLINEAR. What a test refuses or warns about in words of its own is no difference: `IN_OUR_WORDS` has ours.
"""

IN_OUR_WORDS = {  # what they match: what we say in the same place, by the same kind of exception or warning
    "Invalid input - all samples have zero or negative weights.": "sample_weight is zero for every row",
    "The dual coefficients or intercepts are not finite": "whose squares overflow",
    "Sparse precomputed": "kernel='precomputed' needs a dense matrix",
    "predict_proba is not available when fitted with probability=False": "it was fitted with probability=False",
    "Liblinear failed to converge, increase the number of iterations.": "stopped after 2 iterations .* Raise max_iter",
    **{
        rf"Solver terminated early \(max_iter={n}\).  Consider pre-processing your data with StandardScaler or "
        "MinMaxScaler.": rf"stopped after {n} iterations .* \(StandardScaler\)"
        for n in (1, 2)
    },
}

_NEGATIVE = "a negative sample weight is an error that names it; there it leaves the row out"
_PAIRS = "wants a score for each pair of classes (decision_function_shape='ovo'): here there is one a class, no option"
_TIES = "of break_ties, an option that there is not: the highest score wins, ties go to the lower class"
_ONE_NUMBER = "wants a number of iterations for each pair of classes: here all classes are one fit, with one number"
_COMBINATIONS = "wants what LIBLINEAR has no solver for refused; loss, penalty and dual are no parameters of our machines"
_INTERCEPT = "of intercept_scaling, an option that there is not: the intercept is no column of X and is not penalised"
_DEPRECATED = "wants a warning that probability= is deprecated; here it is not: it fits probabilities to rows left out"
_DUALS = "compares duals of dense and sparse rows: several have the same machine, and on some processors ours differ"
_STORAGE = "wants sparse rows refused by a machine of dense ones; here they get the same scores"

DIFFERENCES = {
    "test_sklearn_svm": {
        "test_tweak_params": "sets _dual_coef_, a private array that LIBSVM predicts with",
        "test_probability_raises_futurewarning[True-SVC-SVC]": _DEPRECATED,
        "test_probability_raises_futurewarning[False-SVC-SVC]": _DEPRECATED,
        "test_svc_nusvc_probA_probB_deprecated[SVC]": "of probA_ and probB_, Platt's numbers; ours is temperature_",
        "test_decision_function_shape[SVC]": _PAIRS,
        "test_svc_ovr_tie_breaking[SVC]": _TIES,
        "test_svc_invalid_break_ties_param[SVC]": _TIES,
        "test_svc_raises_error_internal_representation": "sets _n_support, by which LIBSVM reads memory",
        "test_n_iter_libsvm[2-SVC-ndarray]": _ONE_NUMBER,
        "test_n_iter_libsvm[3-SVC-ndarray]": _ONE_NUMBER,
        "test_n_iter_libsvm[4-SVC-ndarray]": _ONE_NUMBER,
        "test_negative_sample_weights_mask_all_samples[weights-are-negative-SVC]": _NEGATIVE,
        "test_negative_weights_svc_leave_just_one_label[mask-label-1-SVC]": _NEGATIVE,
        "test_negative_weights_svc_leave_just_one_label[mask-label-2-SVC]": _NEGATIVE,
        "test_negative_weights_svc_leave_two_labels[partial-mask-label-1-SVC]": _NEGATIVE,
        "test_negative_weight_equal_coeffs[partial-mask-label-1-SVC]": _NEGATIVE,
        "test_bad_input": _STORAGE,
        "test_linearsvc_parameters[True-l1-hinge]": _COMBINATIONS,
        "test_linearsvc_parameters[True-l1-squared_hinge]": _COMBINATIONS,
        "test_linearsvc_parameters[False-l1-hinge]": _COMBINATIONS,
        "test_linearsvc_parameters[False-l2-hinge]": _COMBINATIONS,
        "test_dense_liblinear_intercept_handling": _INTERCEPT,
        "test_immutable_coef_property": "coef_ is the machine, as in LinearSVC: what is written into it counts",
        "test_custom_kernel_not_array_input[SVC]": "rows are numbers; texts go in as kernel='precomputed', as we say",
    },
    "test_sklearn_multiclass": {
        "test_ovr_fit_predict": "wants LinearSVC to be one-versus-rest: a joint machine is another one",
    },
    "test_sklearn_sparse": {
        "test_sparse_realdata": _DUALS,
        "test_svc[poly-X_train2-y_train2-X_test2]": _DUALS,
        "test_svc[poly-X_train3-y_train3-X_test3]": _DUALS,
        "test_svc[sigmoid-X_train2-y_train2-X_test2]": _DUALS,
        "test_sparse_liblinear_intercept_handling": _INTERCEPT,
    },
}

NOT_EVERYWHERE = {_DUALS}  # such a test may pass
