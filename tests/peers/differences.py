"""Tests of scikit-learn that our stand-ins fail, and why that is right. One that passes is an error: take it out."""

_DUALS = "dual_coef_ has a row a class, not one for the pair of classes"
_MESSAGE = "refused or warned about too, in other words"
_NEGATIVE = "negative sample weights are an error"
_DEPRECATED = "deprecated there, not here: probabilities are fitted on rows left out, and nothing is called probA_"
_LIBSVM = "an attribute or an option of LIBSVM alone"
_LIBLINEAR = "an option of LIBLINEAR, which the stand-in takes and leaves alone"

DIFFERENCES = {
    "test_sklearn_svm": {
        "test_libsvm_parameters": _DUALS,
        "test_precomputed": _DUALS,
        "test_tweak_params": _DUALS,
        "test_probability_raises_futurewarning[True-SVC-SVC]": _DEPRECATED,
        "test_probability_raises_futurewarning[False-SVC-SVC]": _DEPRECATED,
        "test_hasattr_predict_proba": _MESSAGE,
        "test_svc_nusvc_probA_probB_deprecated[SVC]": _DEPRECATED,
        "test_decision_function": "scores of classes, not of pairs of them",
        "test_decision_function_shape[SVC]": "scores of classes, not of pairs of them",
        "test_svc_ovr_tie_breaking[SVC]": "the highest score wins always",
        "test_svc_invalid_break_ties_param[SVC]": _LIBSVM,
        "test_svc_raises_error_internal_representation": _LIBSVM,
        "test_n_iter_libsvm[2-SVC-ndarray]": "n_iter_ is one number",
        "test_n_iter_libsvm[3-SVC-ndarray]": "n_iter_ is one number",
        "test_n_iter_libsvm[4-SVC-ndarray]": "n_iter_ is one number",
        "test_negative_sample_weights_mask_all_samples[weights-are-zero-SVC]": _MESSAGE,
        "test_negative_sample_weights_mask_all_samples[weights-are-negative-SVC]": _NEGATIVE,
        "test_negative_weights_svc_leave_just_one_label[mask-label-1-SVC]": _NEGATIVE,
        "test_negative_weights_svc_leave_just_one_label[mask-label-2-SVC]": _NEGATIVE,
        "test_negative_weights_svc_leave_two_labels[partial-mask-label-1-SVC]": _NEGATIVE,
        "test_negative_weight_equal_coeffs[partial-mask-label-1-SVC]": _NEGATIVE,
        "test_bad_input": "sparse rows may be predicted by a machine of dense ones",
        "test_svc_nonfinite_params": _MESSAGE,
        "test_sparse_precomputed": _MESSAGE,
        "test_libsvm_convergence_warnings": _MESSAGE,
        "test_linear_svm_convergence_warnings": _MESSAGE,
        "test_linearsvc_parameters[True-l1-hinge]": _LIBLINEAR,
        "test_linearsvc_parameters[True-l1-squared_hinge]": _LIBLINEAR,
        "test_linearsvc_parameters[False-l1-hinge]": _LIBLINEAR,
        "test_linearsvc_parameters[False-l2-hinge]": _LIBLINEAR,
        "test_dense_liblinear_intercept_handling": "the intercept is not penalised, so intercept_scaling means nothing",
        "test_immutable_coef_property": "coef_ of several classes is the machine itself, and may be changed",
        "test_custom_kernel_not_array_input[SVC]": "rows are numbers; a kernel of texts goes in as kernel='precomputed'",
        "test_svm_with_infinite_C[inf0-SVC-make_classification]": "C must be finite: no fit has a hard margin",
        "test_svm_with_infinite_C[inf1-SVC-make_classification]": "C must be finite: no fit has a hard margin",
    },
    "test_sklearn_multiclass": {
        "test_ovr_fit_predict": "a joint machine is not the one-versus-rest machine",
    },
}
