// What a unit of kernels looks like, for object_code_target.

extern "C" float expf(float);

extern "C" void kiln_fuzz_kernel(float* a, long n) {
  for (long i = 0; i < n; ++i) a[i] = expf(a[i]) * 2;
}
