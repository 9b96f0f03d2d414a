// CudaDevice: copies between windows and runs of the device's memory.
#include <algorithm>
#include <string>

#include "proto/base/log.h"
#include "proto/base/status.h"
#include "runtime/cuda_copy_kernel.h"
#include "runtime/cuda_dense_copies.h"
#include "runtime/cuda_device.h"

namespace kiln {
namespace {

CUstream StreamOf(Stream stream) { return static_cast<CUstream>(stream); }
CUdeviceptr Address(const void* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

// Of one of the runtime's own kernels, with one argument by value.
absl::Status LaunchOwn(const CudaDriver& driver, KernelHandle kernel,
                       int64_t blocks, unsigned threads, void* argument,
                       Stream stream) {
  CUlaunchConfig config{};
  config.gridDimX = static_cast<unsigned>(blocks);
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = threads;
  config.blockDimY = config.blockDimZ = 1;
  config.hStream = StreamOf(stream);
  void* arguments[] = {argument};
  KILN_CUDA_RETURN_IF_ERROR(driver, cuLaunchKernelEx, &config,
                            static_cast<CUfunction>(kernel), arguments,
                            nullptr);
  return absl::OkStatus();
}

// Those that fit into one launch; how many there were.
template <typename Argument>
absl::StatusOr<size_t> LaunchCopies(const CudaDriver& driver,
                                    KernelHandle kernel,
                                    absl::Span<const DenseCopy> copies,
                                    Stream stream) {
  Argument argument;
  const DenseCopiesLaunch launch = Fill(argument, copies);
  if (launch.blocks > 0) {
    RETURN_IF_ERROR(LaunchOwn(driver, kernel, launch.blocks,
                              kDenseCopiesThreads, &argument, stream));
  }
  return launch.taken;
}

}  // namespace

absl::StatusOr<KernelHandle> CudaDevice::StridedCopyKernel() {
  MutexLock lock(&mu_);
  if (strided_copy_ == nullptr) {
    ASSIGN_OR_RETURN(strided_copy_, LoadImage(kStridedCopyPtx));
  }
  return strided_copy_->FindKernel(kStridedCopyName, /*shared_bytes=*/0);
}

absl::Status CudaDevice::Copy(const StridedView& from, const StridedView& to,
                              Stream stream) {
  ASSIGN_OR_RETURN(const CurrentDevice current, MakeCurrent());
  ASSIGN_OR_RETURN(StridedCopyArgument argument,
                   StridedCopyArgument::Of(from, to));
  if (argument.dense()) {
    KILN_CUDA_RETURN_IF_ERROR(
        *driver_, cuMemcpyDtoDAsync_v2, Address(to.data), Address(from.data),
        static_cast<size_t>(argument.count * argument.element_bytes),
        StreamOf(stream));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const KernelHandle kernel, StridedCopyKernel());
  const int64_t blocks =
      (argument.count + kStridedCopyThreads - 1) / kStridedCopyThreads;
  return LaunchOwn(
      *driver_, kernel,
      std::min<int64_t>(blocks, int64_t{32} * traits_.multiprocessors),
      kStridedCopyThreads, &argument, stream);
}

absl::Status CudaDevice::LoadDenseCopies() {
  const std::string ptx = DenseCopiesPtx();
  ASSIGN_OR_RETURN(dense_copies_.module, LoadImage(ptx.c_str()));
  ASSIGN_OR_RETURN(dense_copies_.few,
                   dense_copies_.module->FindKernel(kFewDenseCopiesName, 0));
  ASSIGN_OR_RETURN(dense_copies_.many,
                   dense_copies_.module->FindKernel(kManyDenseCopiesName, 0));
  return absl::OkStatus();
}

CudaDevice::DenseCopyHandles CudaDevice::DenseCopiesKernels() {
  MutexLock lock(&mu_);
  if (!dense_copies_.was_tried) {
    dense_copies_.was_tried = true;
    const absl::Status loaded = LoadDenseCopies();
    if (!loaded.ok()) {
      dense_copies_.few = dense_copies_.many = nullptr;
      LogWarning("cuda.copies_one_by_one",
                 {{"device", traits_.ordinal}, {"error", loaded.ToString()}});
    }
  }
  return {dense_copies_.few, dense_copies_.many};
}

absl::Status CudaDevice::CopyAll(absl::Span<const DenseCopy> copies,
                                 Stream stream) {
  ASSIGN_OR_RETURN(const CurrentDevice current, MakeCurrent());
  const DenseCopyHandles kernels =
      copies.size() > 1 ? DenseCopiesKernels() : DenseCopyHandles();
  if (kernels.many == nullptr) {
    for (const DenseCopy& copy : copies) {
      if (copy.bytes == 0) continue;
      KILN_CUDA_RETURN_IF_ERROR(
          *driver_, cuMemcpyDtoDAsync_v2, Address(copy.to), Address(copy.from),
          static_cast<size_t>(copy.bytes), StreamOf(stream));
    }
    return absl::OkStatus();
  }
  while (!copies.empty()) {
    absl::StatusOr<size_t> taken =
        copies.size() <= kFewRuns ? LaunchCopies<FewDenseCopies>(
                                        *driver_, kernels.few, copies, stream)
                                  : LaunchCopies<ManyDenseCopies>(
                                        *driver_, kernels.many, copies, stream);
    RETURN_IF_ERROR(taken.status());
    copies.remove_prefix(*taken);
  }
  return absl::OkStatus();
}

}  // namespace kiln
