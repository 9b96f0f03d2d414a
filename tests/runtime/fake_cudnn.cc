// A libcudnn.so.9 for tests: it computes nothing, counts what it is asked for, and has engines 7 to
// 9, each with a knob, for graphs of so many operations as a test says. Of what it is asked for by
// its general heuristic it has none.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

constexpr int kNotSupported = 3000;
constexpr int kGraphKind = 15;
constexpr int kFirstEngine = 7, kEngines = 3, kFallback = 2;
constexpr int kHeuristicMode = 200, kHeuristicResults = 202;
constexpr int kConfigEngine = 300, kConfigKnobs = 302, kPlanConfig = 401;
constexpr int kKnobType = 600, kKnobValue = 601;
constexpr int kGraphOperations = 801, kPlanWorkspace = 402;
constexpr int kEngineIndex = 1301, kEngineNumbers = 1303,
              kEngineBehavior = 1305;

struct Descriptor {
  int kind = 0;
  int64_t operations = 0;
  int mode = 0;        // of a heuristic
  int64_t engine = 0;  // of a configuration, an engine and a plan
};

size_t version = 91900;
int64_t most_operations = 1;
int64_t last_workspace = 0;  // in bytes, of the last engine; 0 of the others
int64_t ran = 0;             // the engine of the plan that was made last
std::vector<int> calls(3);   // of engines, additions and activations

}  // namespace

extern "C" {

void fakeSetVersion(size_t value) { version = value; }
void fakeSetMostOperations(int64_t value) { most_operations = value; }
void fakeSetLastWorkspace(int64_t bytes) { last_workspace = bytes; }
int fakeCalls(int which) { return calls[which]; }
int64_t fakeEngine() { return ran; }

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
                             int64_t count, const void* values) {
  auto& d = *static_cast<Descriptor*>(descriptor);
  if (attribute == kGraphOperations) d.operations = count;
  if (attribute == kHeuristicMode) d.mode = *static_cast<const int*>(values);
  if (attribute == kPlanConfig)
    ran = d.engine = static_cast<Descriptor* const*>(values)[0]->engine;
  return 0;
}
int cudnnBackendGetAttribute(void* descriptor, int attribute, int, int64_t room,
                             int64_t* count, void* elements) {
  const auto& d = *static_cast<Descriptor*>(descriptor);
  *count = 1;
  switch (attribute) {
    case kEngineNumbers:
    case kEngineBehavior:
      *count = 0;
      return 0;
    case kHeuristicResults:
      *count = d.mode == kFallback ? 0 : kEngines;
      for (int64_t i = 0; i < *count && i < room; ++i)
        static_cast<Descriptor**>(elements)[i]->engine = kFirstEngine + i;
      return 0;
    case kConfigEngine:
      static_cast<Descriptor**>(elements)[0]->engine = d.engine;
      return 0;
    case kConfigKnobs:
      return 0;
    case kKnobType:
      *static_cast<int*>(elements) = 3;
      return 0;
    case kKnobValue:
      *static_cast<int64_t*>(elements) = 1;
      return 0;
    case kEngineIndex:
      *static_cast<int64_t*>(elements) = d.engine;
      return 0;
    case kPlanWorkspace:
      *static_cast<int64_t*>(elements) =
          d.engine == kFirstEngine + kEngines - 1 ? last_workspace : 0;
      return 0;
    default:
      return kNotSupported;
  }
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
