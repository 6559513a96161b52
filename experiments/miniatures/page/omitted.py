"""Experiments of the papers that have no miniature, and why."""

OMITTED = {
    "FedGuCci, Figures 1 and 5": "drawings that explain the method; nothing is measured in them",
    "FedGuCci, Table 3 (GLUE, RoBERTa-base with LoRA)": (
        "neither GLUE nor RoBERTa's weights come with a Python package, and invented sentences would say nothing "
        "about the table. With your GLUE files: `ntkfl train fedgucci --data sst-2 --path FOLDER --model minilm-lora`"
    ),
    "FedGuCci, Table 5 (pretrained ResNet18 and ViT)": "their weights come with no Python package",
    "FedGuCci, Tables 8 and 9 (10 and 7 of the KDD version), and the columns CIFAR-100 and Tiny-ImageNet elsewhere": (
        "these images come with no Python package. Table 8 is in minutes, which depend on the machine; the miniature "
        "participation has classes as uneven as Table 9's"
    ),
    "FedGuCci, Table 2 on the middle scale, nearer to the paper's": (
        "150 rounds of 15 settings with 2 seeds are about 21 minutes of a processor, by one round of each: `ntkfl "
        "miniature ordering --scale small --scale middle --out DIR`; it goes on where it was stopped, and says of each "
        "ordering whether it is there on both scales"
    ),
    "FedGuCci, the columns CIFAR-10 of Table 2": (
        "CIFAR-10 comes with no Python package; ordering asks the same of the columns Fashion-MNIST. With your copy, a "
        "method at a time: `ntkfl train fedgucci --data cifar-10 --path FOLDER --model simple-cnn --clients 50 "
        "--partition dirichlet:0.5 --rounds 150 --batch-size 64 --rate .04 --rate-decay .99 --weight-decay 5e-4`"
    ),
    "IMA, the rows CIFAR-100, Digit Five and PACS of Table I": "these images come with no Python package",
    "IMA, the rows Fashion-MNIST with Dirichlet 0.1 and CIFAR-10 with ResNet18 of Table I": (
        "ima-methods has the row Fashion-MNIST with 2 classes a client, its paper scale the row CIFAR-10 with the CNN; "
        "FedAvg at Dirichlet 0.1 is in ima. A row is 27 settings, and as small as ima-methods it takes as long again "
        "for the same question: `ntkfl train METHOD --data fashion-mnist --partition dirichlet:0.1 --ima` runs one of "
        "them. ResNet18 is too much for two processors"
    ),
    "IMA, methods other than FedAvg in Tables II and III and Figures 6 and 7": (
        "each is FedAvg's row or curve with another method: 4 minutes of a processor a method for Table II and 7 for "
        "Table III, as small as ima-start and ima. ima-methods has IMA with every method, at one start and one decay"
    ),
    "IMA, Figures 2 and 4 (biases and covariance over the rounds)": (
        "the study averaging-factors has the exact decomposition of which they show parts, and the claim that the "
        "heterogeneous bias dominates, on networks of two layers with squares and a constant rate: `ntkfl study run "
        "averaging-factors`. Figure 4 estimates the covariance by a similarity of outputs instead"
    ),
    "IMA, Figure 5(a)": "a drawing that explains the method; nothing is measured in it",
    "IMA, Figure 10, the rows Fashion-MNIST and ResNet18": (
        "section 4's picture once more for other data and another model, without a claim of their own; plane has the "
        "first row and the last, Dirichlet 0.1"
    ),
}
