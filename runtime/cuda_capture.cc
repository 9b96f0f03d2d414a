// CudaDevice: streams of its own, captures, and the memory that outlives both.
#include "absl/cleanup/cleanup.h"
#include "proto/base/status.h"
#include "runtime/cuda_device.h"

namespace kiln {
namespace {

CUstream StreamOf(Stream stream) { return static_cast<CUstream>(stream); }

class CudaStream final : public OwnedStream {
 public:
  CudaStream(const CudaDevice& device, CUstream stream)
      : device_(device), stream_(stream) {}
  ~CudaStream() override {
    const absl::StatusOr<CurrentDevice> current = device_.MakeCurrent();
    if (current.ok()) device_.driver().cuStreamDestroy_v2(stream_);
  }
  Stream get() const override { return stream_; }

 private:
  const CudaDevice& device_;  // outlives its streams
  const CUstream stream_;
};

class CudaGraph final : public CapturedGraph {
 public:
  CudaGraph(const CudaDevice& device, CUgraphExec graph, int64_t size)
      : device_(device), graph_(graph), size_(size) {}
  ~CudaGraph() override {
    const absl::StatusOr<CurrentDevice> current = device_.MakeCurrent();
    if (current.ok()) device_.driver().cuGraphExecDestroy(graph_);
  }

  absl::Status Launch(Stream stream) override {
    ASSIGN_OR_RETURN(const CurrentDevice current, device_.MakeCurrent());
    KILN_CUDA_RETURN_IF_ERROR(device_.driver(), cuGraphLaunch, graph_,
                              StreamOf(stream));
    return absl::OkStatus();
  }
  int64_t size() const override { return size_; }

 private:
  const CudaDevice& device_;  // outlives its graphs
  const CUgraphExec graph_;
  const int64_t size_;
};

// While alive, this thread may make calls that no capture keeps.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const CudaDriver& driver) : driver_(driver) {
    driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~RelaxedCapture() { driver_.cuThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const CudaDriver& driver_;
  int mode_ = kCudaCaptureRelaxed;
};

}  // namespace

absl::StatusOr<void*> CudaDevice::SegmentAllocator::Allocate(int64_t bytes,
                                                             Stream) {
  ASSIGN_OR_RETURN(const CurrentDevice current, device_.MakeCurrent());
  const CudaDriver& driver = device_.driver();
  const RelaxedCapture relaxed(driver);
  CUdeviceptr address = 0;
  CUresult result = driver.cuMemAlloc_v2(&address, static_cast<size_t>(bytes));
  if (result == kCudaErrorOutOfMemory &&
      driver.cuMemPoolTrimTo(device_.pool_, 0) == 0) {
    result = driver.cuMemAlloc_v2(&address, static_cast<size_t>(bytes));
  }
  RETURN_IF_ERROR(driver.Check(result, "cuMemAlloc_v2"));
  return reinterpret_cast<void*>(address);
}

void CudaDevice::SegmentAllocator::Free(void* memory, int64_t, Stream) {
  const absl::StatusOr<CurrentDevice> current = device_.MakeCurrent();
  if (!current.ok()) return;
  const RelaxedCapture relaxed(device_.driver());
  device_.driver().cuMemFree_v2(reinterpret_cast<CUdeviceptr>(memory));
}

absl::StatusOr<std::unique_ptr<OwnedStream>> CudaDevice::MakeStream() {
  ASSIGN_OR_RETURN(const CurrentDevice current, MakeCurrent());
  CUstream stream = nullptr;
  KILN_CUDA_RETURN_IF_ERROR(*driver_, cuStreamCreate, &stream,
                            kCudaStreamNonBlocking);
  return std::make_unique<CudaStream>(*this, stream);
}

absl::Status CudaDevice::BeginCapture(Stream stream) {
  ASSIGN_OR_RETURN(const CurrentDevice current, MakeCurrent());
  if (stream == nullptr) {
    return absl::FailedPreconditionError("capture: the null stream has none");
  }
  if (IsCaptured(stream)) {
    return absl::FailedPreconditionError(
        "capture: the stream is in one already");
  }
  KILN_CUDA_RETURN_IF_ERROR(*driver_, cuStreamBeginCapture_v2, StreamOf(stream),
                            kCudaCaptureThreadLocal);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CapturedGraph>> CudaDevice::EndCapture(
    Stream stream) {
  ASSIGN_OR_RETURN(const CurrentDevice current, MakeCurrent());
  if (!IsCaptured(stream)) {
    return absl::FailedPreconditionError("capture: none began on this stream");
  }
  CUgraph graph = nullptr;
  KILN_CUDA_RETURN_IF_ERROR(*driver_, cuStreamEndCapture, StreamOf(stream),
                            &graph);
  const absl::Cleanup destroy = [&] { driver_->cuGraphDestroy(graph); };
  size_t size = 0;
  KILN_CUDA_RETURN_IF_ERROR(*driver_, cuGraphGetNodes, graph, nullptr, &size);
  CUgraphExec made = nullptr;
  KILN_CUDA_RETURN_IF_ERROR(*driver_, cuGraphInstantiateWithFlags, &made, graph,
                            0);
  return std::make_unique<CudaGraph>(*this, made, static_cast<int64_t>(size));
}

bool CudaDevice::IsCaptured(Stream stream) const {
  if (stream == nullptr) return false;
  const absl::StatusOr<CurrentDevice> current = MakeCurrent();
  if (!current.ok()) return false;
  int status = kCudaCaptureNone;
  return driver_->cuStreamIsCapturing(StreamOf(stream), &status) == 0 &&
         status != kCudaCaptureNone;
}

}  // namespace kiln
