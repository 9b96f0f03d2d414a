// A libcudnn.so.9 for tests: it computes nothing, counts what it is asked for, and has engines for
// graphs of so many operations as a test says.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

constexpr int kNotSupported = 3000;
constexpr int kGraphKind = 15;
constexpr int kGraphOperations = 801, kPlanWorkspace = 402;
constexpr int kEngineIndex = 1301, kEngineNumbers = 1303,
              kEngineBehavior = 1305;

struct Descriptor {
  int kind = 0;
  int64_t operations = 0;
};

size_t version = 91900;
int64_t most_operations = 1;
std::vector<int> calls(3);  // of engines, additions and activations

}  // namespace

extern "C" {

void fakeSetVersion(size_t value) { version = value; }
void fakeSetMostOperations(int64_t value) { most_operations = value; }
int fakeCalls(int which) { return calls[which]; }

int cudnnCreate(void** handle) {
  *handle = new Descriptor;
  return 0;
}
int cudnnDestroy(void* handle) {
  delete static_cast<Descriptor*>(handle);
  return 0;
}
int cudnnSetStream(void*, void*) { return 0; }
size_t cudnnGetVersion() { return version; }
const char* cudnnGetErrorString(int) { return "CUDNN_STATUS_NOT_SUPPORTED"; }
void cudnnGetLastErrorString(char* text, size_t room) {
  if (room > 0) text[0] = 0;
}

int cudnnBackendCreateDescriptor(int kind, void** made) {
  *made = new Descriptor{kind};
  return 0;
}
int cudnnBackendDestroyDescriptor(void* descriptor) {
  delete static_cast<Descriptor*>(descriptor);
  return 0;
}
int cudnnBackendSetAttribute(void* descriptor, int attribute, int,
                             int64_t count, const void*) {
  if (attribute == kGraphOperations)
    static_cast<Descriptor*>(descriptor)->operations = count;
  return 0;
}
int cudnnBackendGetAttribute(void*, int attribute, int, int64_t room,
                             int64_t* count, void* elements) {
  const bool is_note =
      attribute == kEngineNumbers || attribute == kEngineBehavior;
  *count = is_note ? 0 : 1;
  if (room > 0 && attribute == kPlanWorkspace)
    *static_cast<int64_t*>(elements) = 0;
  if (room > 0 && attribute == kEngineIndex)
    *static_cast<int64_t*>(elements) = 7;
  return 0;
}
int cudnnBackendFinalize(void* descriptor) {
  const auto& d = *static_cast<Descriptor*>(descriptor);
  return d.kind == kGraphKind && d.operations > most_operations ? kNotSupported
                                                                : 0;
}
int cudnnBackendExecute(void*, void*, void*) {
  ++calls[0];
  return 0;
}

int cudnnCreateTensorDescriptor(void** made) {
  *made = new Descriptor;
  return 0;
}
int cudnnDestroyTensorDescriptor(void* descriptor) {
  delete static_cast<Descriptor*>(descriptor);
  return 0;
}
int cudnnSetTensorNdDescriptor(void*, int, int, const int*, const int*) {
  return 0;
}
int cudnnAddTensor(void*, const void*, void*, const void*, const void*, void*,
                   void*) {
  ++calls[1];
  return 0;
}
int cudnnCreateActivationDescriptor(void** made) {
  *made = new Descriptor;
  return 0;
}
int cudnnDestroyActivationDescriptor(void* descriptor) {
  delete static_cast<Descriptor*>(descriptor);
  return 0;
}
int cudnnSetActivationDescriptor(void*, int, int, double) { return 0; }
int cudnnActivationForward(void*, void*, const void*, void*, const void*,
                           const void*, void*, void*) {
  ++calls[2];
  return 0;
}

}  // extern "C"
