// Every method of every service that a daemon has, called over TLS by callers who
// may not: no method answers before it has asked who calls. The services are those
// that reflection names, so a new one is called too.

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/daemon_channel.h"
#include "google/protobuf/dynamic_message.h"
#include "gtest/gtest.h"
#include "proto/base/signature.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "tests/support/daemon_stubs.h"
#include "tests/support/raw_call.h"
#include "tests/support/reflection_client.h"
#include "tests/support/short_folder.h"
#include "tests/support/test_ca.h"
#include "tests/support/test_daemon.h"
#include "tests/support/tls_daemons.h"

namespace kiln {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

constexpr char kAdminService[] = "kiln.wire.AdminService";

// Answers everybody: a load balancer's probe shows nothing. Reflection is not on
// the network.
bool IsForEverybody(const std::string& service) {
  return service == "grpc.health.v1.Health" ||
         absl::StartsWith(service, "grpc.reflection.");
}

// A request of the method that names `key`, wherever it may.
std::string RequestNaming(const std::string& key,
                          const MethodDescriptor& method) {
  google::protobuf::DynamicMessageFactory factory;
  const std::unique_ptr<google::protobuf::Message> request(
      factory.GetPrototype(method.input_type())->New());
  for (const char* name : {"key_prefix_hex", "clear_prefix_hex"}) {
    const FieldDescriptor* field = method.input_type()->FindFieldByName(name);
    if (field != nullptr)
      request->GetReflection()->SetString(request.get(), field, key);
  }
  return request->SerializeAsString();
}

class DoorMethods : public testing::Test {
 protected:
  DoorMethods()
      : ca_(folder_.path(), "ca"),
        server_(ca_.Issue("kilnd.example", "kilnd")),
        daemon_([this](Config& config) { OpenTlsDoor(config, server_, ca_); }) {
    const CompileAnswer made =
        daemon_.client().Compile(FakeRequest({"fake.salt.a"}));
    EXPECT_TRUE(made.status.ok()) << made.status;
    key_ = absl::BytesToHexString(made.result.compile_key());
    const auto names =
        ServicesAt(absl::StrCat("unix:", daemon_.config().socket));
    EXPECT_TRUE(names.ok()) << names.status();
    for (const std::string& name : *names) {
      const ServiceDescriptor* service =
          DescriptorPool::generated_pool()->FindServiceByName(name);
      EXPECT_NE(service, nullptr) << name;
      if (service != nullptr && !IsForEverybody(name))
        services_.push_back(service);
    }
  }

  std::shared_ptr<grpc::Channel> Channel(const std::string& token_file = "") {
    return ChannelWith({.ca = ca_.file(), .token_file = token_file});
  }
  // Of a caller that is known and has no role anywhere.
  std::shared_ptr<grpc::Channel> NobodysChannel() {
    const TestCa::Files own = ca_.Issue("nobody.example", "nobody");
    return ChannelWith(
        {.ca = ca_.file(), .certificate = own.certificate, .key = own.key});
  }
  std::shared_ptr<grpc::Channel> ChannelWith(const DaemonTls& tls) {
    DaemonAddress address;
    address.tcp = absl::StrCat("localhost:", daemon_.daemon().tcp_port());
    address.tls = tls;
    address.public_keys.push_back(SigningKey::Generate()->public_key());
    return *OpenDaemonChannel(address);
  }

  std::string ReaderTokenFile() {
    wire::AddTokenRequest request;
    request.set_name("reader");
    request.set_role("reader");
    request.add_namespaces("*");
    request.set_life_ms(3600 * 1000);
    wire::AddTokenReply reply;
    grpc::ClientContext context;
    EXPECT_TRUE(
        AdminStub(daemon_.client())->AddToken(&context, request, &reply).ok());
    std::string path = absl::StrCat(folder_.path(), "/token");
    std::ofstream(path) << reply.token();
    EXPECT_EQ(chmod(path.c_str(), 0600), 0);
    return path;
  }

  // What the method answers to a request that names `key`.
  static absl::Status Call(const std::shared_ptr<grpc::Channel>& channel,
                           const MethodDescriptor& method,
                           const std::string& key) {
    return CallBytes(channel, method, RequestNaming(key, method));
  }
  // What it answers before there is a request.
  static absl::Status CallUnsaid(const std::shared_ptr<grpc::Channel>& channel,
                                 const MethodDescriptor& method) {
    grpc::ClientContext context;
    SetDeadline(context, SteadyIn(absl::Seconds(20)));
    const grpc::Status status = CallWithoutMessage(
        channel, context,
        absl::StrCat("/", method.service()->full_name(), "/", method.name()));
    return FromGrpc(context, status);
  }
  static absl::Status CallBytes(const std::shared_ptr<grpc::Channel>& channel,
                                const MethodDescriptor& method,
                                const std::string& bytes) {
    grpc::ClientContext context;
    SetDeadline(context, SteadyIn(absl::Seconds(20)));
    std::string reply;
    const grpc::Status status = CallRaw(
        channel, context,
        absl::StrCat("/", method.service()->full_name(), "/", method.name()),
        bytes, reply);
    return FromGrpc(context, status);
  }

  const ShortFolder folder_;
  TestCa ca_;
  const TestCa::Files server_;
  TestDaemon daemon_;
  std::string key_;  // of an entry that is there
  std::vector<const ServiceDescriptor*> services_;
};

TEST_F(DoorMethods, AStrangerLearnsNothingFromAnyMethod) {
  const auto channel = Channel();
  int called = 0;
  for (const ServiceDescriptor* service : services_) {
    for (int i = 0; i < service->method_count(); ++i) {
      const MethodDescriptor& method = *service->method(i);
      const absl::Status there = Call(channel, method, key_);
      const absl::Status missing = Call(channel, method, "ffffffffffff");
      EXPECT_TRUE(absl::IsUnauthenticated(there)) << method.name() << there;
      EXPECT_EQ(ReasonOf(there), ErrorReason::kUnauthenticated);
      EXPECT_EQ(there.code(), missing.code()) << method.name();
      ++called;
    }
  }
  EXPECT_GE(called, 16);
  EXPECT_EQ(daemon_.count(Count::kCallersRefused), 2 * called);
}

TEST_F(DoorMethods, AStrangerIsRefusedBeforeHeHasSentAMessage) {
  const auto stranger = Channel(), nobody = NobodysChannel();
  for (const ServiceDescriptor* service : services_) {
    for (int i = 0; i < service->method_count(); ++i) {
      const MethodDescriptor& method = *service->method(i);
      EXPECT_EQ(ReasonOf(CallUnsaid(stranger, method)),
                ErrorReason::kUnauthenticated)
          << method.full_name();
      EXPECT_EQ(ReasonOf(CallUnsaid(nobody, method)), ErrorReason::kPermission)
          << method.full_name();
    }
  }
}

TEST_F(DoorMethods, AReaderMayCallNoMethodOfTheAdmin) {
  const auto channel = Channel(ReaderTokenFile());
  const ServiceDescriptor* admin =
      DescriptorPool::generated_pool()->FindServiceByName(kAdminService);
  ASSERT_NE(admin, nullptr);
  for (int i = 0; i < admin->method_count(); ++i) {
    const MethodDescriptor& method = *admin->method(i);
    const absl::Status there = Call(channel, method, key_);
    const absl::Status missing = Call(channel, method, "ffffffffffff");
    EXPECT_TRUE(absl::IsPermissionDenied(there)) << method.name() << there;
    EXPECT_EQ(ReasonOf(there), ErrorReason::kPermission) << method.name();
    EXPECT_EQ(there, missing) << method.name();
  }
  // What is no namespace is told as that, and is not recorded as a subject.
  wire::ListRequest list_request;
  list_request.set_cache_namespace(std::string(100 << 10, 'n'));
  const absl::Status refused =
      CallBytes(channel, *admin->FindMethodByName("List"),
                list_request.SerializeAsString());
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kBadOption) << refused;
  // The entry is there, and so is the daemon.
  wire::ListReply list;
  grpc::ClientContext context;
  ASSERT_TRUE(AdminStub(daemon_.client())->List(&context, {}, &list).ok());
  EXPECT_EQ(list.entries_size(), 1);
}

// "VmHWM" of this process, which is the daemon too.
int64_t MostMebibytes() {
  std::ifstream in("/proc/self/status");
  std::string word;
  int64_t kilobytes = 0;
  while (in >> word) {
    if (word == "VmHWM:" && in >> kilobytes) break;
  }
  return kilobytes >> 10;
}

TEST_F(DoorMethods, ABombOfEmptyFieldsIsDecodedByNoMethod) {
  // Two bytes of an empty message cost 70 times as much decoded.
  constexpr size_t kBytes = size_t{16} << 20;
  std::vector<std::string> bombs;
  for (const char* field : {"\x0a", "\x12", "\x1a", "\x2a", "\x7a"}) {
    std::string& bomb = bombs.emplace_back();
    while (bomb.size() < kBytes) bomb.append(field).push_back('\0');
  }
  const auto stranger = Channel(), reader = Channel(ReaderTokenFile());
  const int64_t before = MostMebibytes();
  for (const ServiceDescriptor* service : services_) {
    for (int i = 0; i < service->method_count(); ++i) {
      const MethodDescriptor& method = *service->method(i);
      for (const std::string& bomb : bombs) {
        EXPECT_EQ(ReasonOf(CallBytes(stranger, method, bomb)),
                  ErrorReason::kUnauthenticated)
            << method.full_name();
        const absl::Status told = CallBytes(reader, method, bomb);
        // Describe looks at nothing of its request.
        if (method.name() == "Describe") continue;
        EXPECT_TRUE(ReasonOf(told) == ErrorReason::kTooLarge ||
                    ReasonOf(told) == ErrorReason::kPermission)
            << method.full_name() << told;
      }
      EXPECT_LT(MostMebibytes() - before, 400) << method.full_name();
    }
  }
}

}  // namespace
}  // namespace kiln
