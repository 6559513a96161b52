"""Property-based tests of kernel functions: `print(check(my_kernel))`.

A kernel is a function kernel(x, z=None) of rows x (n, d), z (n', d) that returns the array (n, n') of k(x_i, z_j);
without z it takes z = x. A property that fails is shown by the smallest data set found.
"""

from verification.kernels.checking import check, relu_strictly_positive
from verification.kernels.kernel_report import Counterexample, KernelReport, PropertyCheck

__all__ = ["Counterexample", "KernelReport", "PropertyCheck", "check", "relu_strictly_positive"]
