"""Experiments of the papers that have no miniature, and why."""

OMITTED = {
    "FedGuCci, Table 3 (GLUE, RoBERTa-base with LoRA)": (
        "neither GLUE nor RoBERTa's weights come with a Python package, and invented sentences would say nothing "
        "about the table. With your GLUE files: `ntkfl train fedgucci --data sst-2 --path FOLDER --model minilm-lora`"
    ),
    "FedGuCci, Table 5 (pretrained ResNet18 and CLIP ViT)": (
        "their weights come with no Python package; the printed differences are .2 to .9 points, their noise .1 to .6"
    ),
    "FedGuCci, Tables 8 and 9, and the columns CIFAR-100 and Tiny-ImageNet elsewhere": (
        "these images come with no Python package. Table 8 is in minutes, which depend on the machine; the miniature "
        "participation has classes as uneven as Table 9's"
    ),
    "IMA, the columns CIFAR-100, Digit Five and PACS of Table I": "these images come with no Python package",
    "IMA, Figures 2 to 4 (biases, locality and covariance over the rounds)": (
        "the study averaging-factors has the exact decomposition of which Figures 2 and 4 show parts, on networks of "
        "two layers: `ntkfl study run averaging-factors`; the distances of Figure 3 are not drawn"
    ),
    "IMA, Figures 5, 7(c) and 8 to 10 (landscapes, and curves of other data)": (
        "not made; Figure 1 is in the miniature plane, Figure 6 in ima-federations, Figure 7(a) and (b) in ima-window"
    ),
}
