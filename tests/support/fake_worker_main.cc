// A compile worker that does as it is told, for tests of the daemon: a real
// process behind real frames, so that its faults are real too.
//
// The graph's operators are its orders, "fake.WORD.ARGUMENT" each:
//
//   fake.units.N           the plan has N translation units (default 1)
//   fake.salt.TEXT         nothing; makes another graph
//   fake.shared.TEXT       the units are those of every graph with this text
//   fake.row.KEY           the plan looks up this key of the tuning table
//   fake.way.KEY           the plan looks up this key, and one that is called by its
//                          decision, "of/KEY/CHOICE", which can be measured with
//                          that decision alone; "of/KEY/" where there is none
//   fake.error.REASON      an error with this reason
//   fake.die.any           aborts while planning, with words on stderr
//   fake.die_once.TAG      aborts the first time only
//   fake.hang.any          never answers
//   fake.hang_once.TAG     never answers the first time
//   fake.garbage.any       answers with bytes that are no frame
//   fake.eat.any           takes memory until it gets none
//   fake.spin.any          takes processor time for ever
//   fake.crash.any         writes to an address that is not there
//   fake.bomb.any          forks until it may not, then hangs
//   fake.orphan.NAME       starts a child that never ends and holds the named
//                          pipe pipe_NAME, which lies in the folder of the gates
//   fake.pry.HEX           an error that says whether the file of this name, in
//                          hexadecimal digits, can be read
//   fake.policy.any        an error that has the scheduling policy of its hello
//   fake.gate.NAME         answers when the file NAME lies in the folder of
//                          the gates
//   fake.guard_mod.N       relies on symbol 0 being a multiple of N, unless
//                          that is forbidden
//   fake.build_...         die, die_once, hang, error, gate: while building
//   fake.measure_...       likewise while measuring
//   fake.build_pad.N       the object has N bytes more
//
// What is to happen once is remembered by a file beside its scratch folder. A
// file `toolchain` there is the version that its compiler says it has; "none": it
// has no compiler. So that it may, its jail has the folder around its own too,
// which a worker's has not.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/base/assemble.h"
#include "proto/base/frame.h"
#include "proto/base/status.h"
#include "proto/base/work_error.h"
#include "proto/jail/enter_jail.h"
#include "proto/jail/jail_spec.h"
#include "proto/jail/lowest_priority.h"
#include "proto/worker.pb.h"

namespace kiln {
namespace {

constexpr int kSocketFd = 3;

int hello_policy = 0;

struct Order {
  std::string word;
  std::string argument;
};

// True the first time that any fake worker of this daemon asks with `tag`.
bool FirstTime(const std::string& tag) {
  const int fd = open(absl::StrCat("../once_", tag).c_str(),
                      O_CREAT | O_EXCL | O_WRONLY, 0600);
  if (fd < 0) return false;
  close(fd);
  return true;
}

[[noreturn]] void Die() {
  fprintf(stderr, "fake worker: dies as told\n");
  signal(SIGABRT, SIG_DFL);
  abort();
}

[[noreturn]] void Hang() {
  while (true) pause();
}

[[noreturn]] void EatMemory() {
  constexpr size_t kPiece = size_t{16} << 20;
  while (true) {
    char* piece = static_cast<char*>(malloc(kPiece));
    if (piece == nullptr) Die();
    for (size_t i = 0; i < kPiece; i += 4096) piece[i] = 1;
  }
}

[[noreturn]] void Spin() {
  volatile uint64_t turns = 0;
  while (true) turns = turns + 1;
}

[[noreturn]] void Bomb() {
  while (fork() >= 0) {
  }
  Hang();
}

// The child holds the pipe's write end open, so that its end can be seen.
void LeaveChild(const std::string& name) {
  const int pipe = open(absl::StrCat("../pipe_", name).c_str(), O_WRONLY);
  if (fork() == 0) {
    close(kSocketFd);
    Hang();
  }
  close(pipe);
}

void WaitForGate(const std::string& name) {
  const std::string path = absl::StrCat("../gate_", name);
  while (access(path.c_str(), F_OK) != 0) usleep(1000);
}

absl::Status Pry(const std::string& hex) {
  const int fd =
      open(absl::HexStringToBytes(hex).c_str(), O_RDONLY | O_CLOEXEC);
  const std::string found = fd >= 0 ? "it is open" : strerror(errno);
  if (fd >= 0) close(fd);
  return MakeError(ErrorReason::kUnsupportedOp,
                   absl::StrCat("fake: pried: ", found));
}

absl::Status Obey(const Order& order) {
  if (order.word == "die") Die();
  if (order.word == "die_once" && FirstTime(order.argument)) Die();
  if (order.word == "hang") Hang();
  if (order.word == "hang_once" && FirstTime(order.argument)) Hang();
  if (order.word == "eat") EatMemory();
  if (order.word == "spin") Spin();
  if (order.word == "crash") raise(SIGSEGV);
  if (order.word == "bomb") Bomb();
  if (order.word == "orphan") LeaveChild(order.argument);
  if (order.word == "pry") return Pry(order.argument);
  if (order.word == "policy") {
    return absl::InternalError(absl::StrCat("policy ", hello_policy));
  }
  if (order.word == "gate") WaitForGate(order.argument);
  if (order.word == "garbage") {
    const std::string bytes = "this is not a frame, however long one looks";
    if (write(kSocketFd, bytes.data(), bytes.size()) < 0) Die();
    Hang();
  }
  if (order.word == "error") {
    return MakeError(
        ReasonFromName(order.argument).value_or(ErrorReason::kMalformedGraph),
        "fake: as told");
  }
  return absl::OkStatus();
}

std::vector<Order> OrdersOf(const wire::Graph& graph) {
  std::vector<Order> orders;
  for (const wire::Node& node : graph.nodes()) {
    const std::vector<std::string> parts =
        absl::StrSplit(node.op(), absl::MaxSplits('.', 2));
    if (parts.size() == 3 && parts[0] == "fake") {
      orders.push_back({parts[1], parts[2]});
    }
  }
  return orders;
}

void RelyOnMultiple(int64_t divisor, const wire::CompileRequest& request,
                    wire::GuardSet& guards) {
  wire::SymGuard guard;
  guard.set_origin(absl::StrCat("fake: s0 is a multiple of ", divisor));
  const auto push = [&guard](wire::SymOp op, int64_t value) {
    wire::SymInstruction& i = *guard.mutable_condition()->add_code();
    i.set_op(op);
    i.set_value(value);
  };
  push(wire::SYM_OP_SYMBOL, 0);
  push(wire::SYM_OP_CONSTANT, divisor);
  push(wire::SYM_OP_MOD, 0);
  push(wire::SYM_OP_CONSTANT, 0);
  push(wire::SYM_OP_EQ, 0);
  for (const wire::SymGuard& forbidden : request.forbidden().symbols()) {
    if (forbidden.condition().SerializeAsString() ==
        guard.condition().SerializeAsString()) {
      return;
    }
  }
  *guards.add_symbols() = std::move(guard);
}

// The graph's inputs and symbols, each symbol found as the size of an input: so
// that clients can load the plan, test its guards and run its no steps.
void TakeInputs(const wire::Graph& graph, wire::LaunchPlan& plan) {
  for (const wire::Symbol& symbol : graph.symbols()) {
    wire::PlanSymbol& added = *plan.add_symbols();
    added.set_name(absl::StrCat("s", plan.symbols_size() - 1));
    added.set_min(symbol.min());
    added.set_max(symbol.max() == 0 ? int64_t{1} << 62 : symbol.max());
  }
  for (int i = 0; i < graph.inputs_size(); ++i) {
    const wire::TensorMeta& meta = graph.inputs(i).tensor();
    *plan.add_inputs()->mutable_tensor() = meta;
    for (int d = 0; d < meta.sizes_size(); ++d) {
      if (meta.sizes(d).code_size() != 1) continue;
      wire::SymbolSource& source =
          *plan.mutable_symbols(static_cast<int>(meta.sizes(d).code(0).value()))
               ->mutable_source();
      source.set_kind(wire::SymbolSource::KIND_SIZE);
      source.set_input(static_cast<uint32_t>(i));
      source.set_dim(static_cast<uint32_t>(d));
    }
  }
}

// Of a request for a plan or a measurement.
template <typename Request>
std::string ChoiceOf(const std::string& row, const Request& request) {
  std::string choice;
  for (const wire::TuningDecision& decision : request.tuning()) {
    if (decision.key() == row) choice = decision.choice();
  }
  return choice;
}

void LookUpRow(const std::string& row, const wire::PlanRequest& request,
               wire::CompilePlan& compiled) {
  compiled.add_tuned(absl::StrCat(row, " ", ChoiceOf(row, request)));
}

// The key that depends on the decision under `way`.
template <typename Request>
std::string RowOfWay(const std::string& way, const Request& request) {
  return absl::StrCat("of/", way, "/", ChoiceOf(way, request));
}

absl::StatusOr<wire::CompilePlan> Plan(const wire::PlanRequest& request) {
  wire::CompilePlan compiled;
  TakeInputs(request.compile().graph(), *compiled.mutable_plan());
  int64_t units = 1;
  std::string text = request.compile().graph().SerializeAsString();
  std::string build_orders;
  for (const Order& order : OrdersOf(request.compile().graph())) {
    RETURN_IF_ERROR(Obey(order));
    int64_t number = 0;
    if (absl::SimpleAtoi(order.argument, &number)) {
      if (order.word == "units") units = number;
      if (order.word == "guard_mod") {
        RelyOnMultiple(number, request.compile(), *compiled.mutable_guards());
      }
    }
    if (order.word == "shared") text = order.argument;
    if (order.word == "row") LookUpRow(order.argument, request, compiled);
    if (order.word == "way") {
      LookUpRow(RowOfWay(order.argument, request), request, compiled);
      LookUpRow(order.argument, request, compiled);
    }
    absl::string_view word = order.word;
    if (absl::ConsumePrefix(&word, "build_")) {
      absl::StrAppend(&build_orders, word, " ", order.argument, "\n");
    }
  }
  for (int64_t i = 0; i < units; ++i) {
    const std::string symbol = absl::StrCat("kiln_poi_fake_", i);
    wire::TranslationUnit& unit = *compiled.add_units();
    unit.set_language(wire::TranslationUnit::LANGUAGE_CPP);
    unit.set_source(
        absl::StrCat(build_orders, "// ", i, " ", Sha256Of(text).Hex()));
    unit.add_symbols(symbol);
    unit.set_digest(UnitDigest(unit).ToBytes());
    wire::PlanKernel& kernel = *compiled.mutable_plan()->add_kernels();
    kernel.set_symbol(symbol);
    kernel.set_label(symbol);
    kernel.set_module(static_cast<uint32_t>(i));
  }
  return compiled;
}

absl::StatusOr<wire::ObjectCode> Build(const wire::BuildRequest& request) {
  std::string padding;
  for (absl::string_view line : absl::StrSplit(request.unit().source(), '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() != 2 || words[0] == "//") continue;
    RETURN_IF_ERROR(Obey({words[0], words[1]}));
    int64_t bytes = 0;
    if (words[0] == "pad" && absl::SimpleAtoi(words[1], &bytes)) {
      padding.assign(bytes, 'x');
    }
  }
  wire::ObjectCode object;
  object.set_unit_digest(request.unit().digest());
  object.set_image(
      absl::StrCat("object of ", request.unit().source(), padding));
  return object;
}

// The second of two choices wins.
absl::StatusOr<wire::TuningDecision> Measure(
    const wire::MeasureRequest& request) {
  for (const Order& order : OrdersOf(request.compile().graph())) {
    if (order.word == "way" && request.key() != order.argument &&
        request.key() != RowOfWay(order.argument, request)) {
      return MakeError(ErrorReason::kBadOption,
                       absl::StrCat("no such key: ", request.key()));
    }
    absl::string_view word = order.word;
    if (!absl::ConsumePrefix(&word, "measure_")) continue;
    RETURN_IF_ERROR(Obey({std::string(word), order.argument}));
  }
  wire::TuningDecision decision;
  decision.set_key(request.key());
  decision.set_choice("rows=4");
  for (const double seconds : {3e-6, 1e-6}) decision.add_seconds(seconds);
  for (const char* choice : {"rows=1", "rows=4"}) decision.add_choices(choice);
  return decision;
}

void SayHello(wire::HelloReply& hello) {
  hello.set_build_identity(Sha256Of("fake worker").ToBytes());
  wire::Toolchain& compiler = *hello.add_toolchains();
  compiler.set_name("g++");
  std::ifstream told("../toolchain");
  std::string version;
  compiler.set_version(told >> version ? version : "0.0 (fake)");
  if (version == "none") compiler.set_missing("as told");
  wire::Toolchain& nvrtc = *hello.add_toolchains();
  nvrtc.set_name("nvrtc");
  nvrtc.set_missing("the fake worker has none");
}

template <typename T>
void Put(absl::StatusOr<T> result, T& into, wire::WorkReply& reply) {
  if (result.ok()) {
    into = *std::move(result);
    return;
  }
  *reply.mutable_error() = WorkErrorOf(result.status());
}

// With the folder of the gates in it.
void EnterWiderJail(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  absl::StatusOr<JailSpec> spec = TakeJailWords(words);
  if (!spec.ok()) exit(2);
  spec->writable.push_back(
      std::filesystem::path(spec->scratch).parent_path().string());
  chmod(spec->writable.back().c_str(), 0777);
  words = JailWords(*spec);
  words.insert(words.begin(), argv[0]);
  std::vector<char*> wider;
  for (std::string& word : words) wider.push_back(word.data());
  EnterJail(static_cast<int>(wider.size()), wider.data());
}

int Serve() {
  while (true) {
    const absl::StatusOr<std::string> bytes = ReadFrame(kSocketFd);
    if (!bytes.ok()) return 0;
    wire::WorkRequest request;
    if (!request.ParseFromString(*bytes)) return 1;
    wire::WorkReply reply;
    reply.set_id(request.id());
    if (request.has_hello()) {
      hello_policy = sched_getscheduler(0);
      SayHello(*reply.mutable_hello());
    }
    if (request.has_plan()) {
      Put(Plan(request.plan()), *reply.mutable_plan(), reply);
      wire::PassTiming& timing = *reply.add_timings();
      timing.set_pass("obey");
      timing.set_microseconds(7);
    }
    if (request.has_build()) {
      Put(Build(request.build()), *reply.mutable_build(), reply);
    }
    if (request.has_measure()) {
      Put(Measure(request.measure()), *reply.mutable_measure(), reply);
    }
    if (!WriteFrame(kSocketFd, reply.SerializeAsString()).ok()) return 0;
    TakeLowestPriority();  // its hello is out
  }
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  kiln::EnterWiderJail(argc, argv);
  return kiln::Serve();
}
