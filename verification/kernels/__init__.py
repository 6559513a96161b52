"""Property-based tests of kernel functions, run by `print(check(my_kernel))`.

A kernel is a function kernel(x, z=None) of rows x (n, d) and z (n', d). It returns the array (n, n') of k(x_i, z_j);
without z it takes z = x. If a property fails, the report shows the smallest data set found on which it fails.
"""

from verification.kernels.checking import check, relu_strictly_positive
from verification.kernels.kernel_report import Counterexample, KernelReport, PropertyCheck

__all__ = ["Counterexample", "KernelReport", "PropertyCheck", "check", "relu_strictly_positive"]
