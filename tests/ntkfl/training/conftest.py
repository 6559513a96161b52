"""Registers two marks of pytest, by which a test says its kind and its methods to `tests/ntkfl/method_matrix.py`."""


def pytest_configure(config):
    config.addinivalue_line("markers", "kind(name): a kind of test that every method is put to; a column of the matrix")
    config.addinivalue_line(
        "markers", "method(*names): the methods that a test is about, where its parameters do not say"
    )
