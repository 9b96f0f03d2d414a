// What an admin of one namespace may do, method by method: the table "Roles" of
// SECURITY.md. A real daemon, over TLS with a certificate.

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/daemon_channel.h"
#include "google/protobuf/dynamic_message.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/base/signature.h"
#include "proto/base/status.h"
#include "proto/base/steady_time.h"
#include "tests/support/raw_call.h"
#include "tests/support/short_folder.h"
#include "tests/support/test_ca.h"
#include "tests/support/test_daemon.h"
#include "tests/support/tls_daemons.h"

namespace kiln {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

class Roles : public testing::Test {
 protected:
  Roles()
      : ca_(folder_.path(), "ca"),
        server_(ca_.Issue("kilnd.example", "kilnd")),
        daemon_([this](Config& config) {
          OpenTlsDoor(config, server_, ca_);
          config.access = {{"cert:boss.example", {Role::kAdmin, {"team-a"}}}};
          config.file = file_;
          WriteRule("[\"team-a\"]");
        }) {
    const TestCa::Files own = ca_.Issue("boss.example", "boss");
    DaemonAddress address;
    address.tcp = absl::StrCat("localhost:", daemon_.daemon().tcp_port());
    address.tls = {
        .ca = ca_.file(), .certificate = own.certificate, .key = own.key};
    address.public_keys.push_back(SigningKey::Generate()->public_key());
    channel_ = *OpenDaemonChannel(address);
  }

  // The file has this rule alone.
  void WriteRule(const std::string& namespaces) {
    const std::string next = absl::StrCat(file_, ".new");
    std::ofstream(next) << "[[access]]\nwho = \"cert:boss.example\"\n"
                        << "role = \"admin\"\nnamespaces = " << namespaces
                        << "\n";
    EXPECT_EQ(rename(next.c_str(), file_.c_str()), 0);
  }

  // What a method of the admin service answers the admin of team-a. `request`:
  // as text.
  absl::Status Call(const std::string& method, const std::string& request) {
    const MethodDescriptor* found = service_->FindMethodByName(method);
    if (found == nullptr) return absl::NotFoundError(method);
    google::protobuf::DynamicMessageFactory factory;
    const std::unique_ptr<google::protobuf::Message> message(
        factory.GetPrototype(found->input_type())->New());
    EXPECT_TRUE(
        google::protobuf::TextFormat::ParseFromString(request, message.get()))
        << request;
    grpc::ClientContext context;
    SetDeadline(context, SteadyIn(absl::Seconds(20)));
    std::string reply;
    const grpc::Status status = CallRaw(
        channel_, context, absl::StrCat("/kiln.wire.AdminService/", method),
        message->SerializeAsString(), reply);
    return FromGrpc(context, status);
  }

  std::string Audit() const {
    std::ifstream in(absl::StrCat(daemon_.config().data_folder, "/audit.log"));
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const ServiceDescriptor* const service_ =
      DescriptorPool::generated_pool()->FindServiceByName(
          "kiln.wire.AdminService");
  const ShortFolder folder_;
  const std::string file_ = absl::StrCat(folder_.path(), "/kilnd.toml");
  TestCa ca_;
  const TestCa::Files server_;
  TestDaemon daemon_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(Roles, ALookupThatAnotherCallerMadeBeforeIsRefusedLikeAnyOther) {
  const wire::CompileRequest request = FakeRequest({"fake.units.1"});
  ASSERT_TRUE(daemon_.client().Compile(request).status.ok());
  const wire::LookupRequest lookup = LookupFor(request);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(daemon_.client().Lookup(lookup)->outcome(),
              wire::LookupReply::OUTCOME_HIT);
  }
  grpc::ClientContext context;
  SetDeadline(context, SteadyIn(absl::Seconds(20)));
  std::string reply;
  const grpc::Status status =
      CallRaw(channel_, context, "/kiln.wire.CompileService/Lookup",
              lookup.SerializeAsString(), reply);
  EXPECT_EQ(ReasonOf(FromGrpc(context, status)), ErrorReason::kPermission);
  EXPECT_TRUE(absl::StrContains(Audit(), "\"what\":\"lookup\"")) << Audit();
}

TEST_F(Roles, AnAdminOfANamespaceMayDoWhatConcernsThatOneAlone) {
  struct Row {
    const char* method;
    const char* request;
    bool allowed;
  };
  const std::vector<Row> rows = {
      {"List", "cache_namespace: 'team-a'", true},
      {"Show", "cache_namespace: 'team-a' key_prefix_hex: 'ff'", true},
      {"Explain", "cache_namespace: 'team-a' key_prefix_hex: 'ff'", true},
      {"Purge", "cache_namespace: 'team-a' all: true", true},
      {"Pin", "cache_namespace: 'team-a' key_prefix_hex: 'ff'", true},
      {"RotateKey", "cache_namespace: 'team-a'", true},
      // Another namespace, or all of them.
      {"List", "cache_namespace: 'team-b'", false},
      {"List", "", false},
      {"Show", "key_prefix_hex: 'ff'", false},
      {"Explain", "key_prefix_hex: 'ff'", false},
      {"Purge", "all: true", false},
      {"Purge", "cache_namespace: 'team-b' all: true", false},
      {"Pin", "key_prefix_hex: 'ff'", false},
      {"RotateKey", "cache_namespace: 'team-b'", false},
      {"RotateKey", "", false},
      // What concerns the daemon.
      {"Stats", "", false},
      {"Jobs", "", false},
      {"Workers", "", false},
      {"ListQuarantine", "", false},
      {"Maintain", "", false},
      {"Tune", "", false},
      {"Drain", "", false},
      {"AddToken", "name: 'x' role: 'reader' namespaces: 'team-a'", false},
      {"RevokeToken", "name: 'x'", false},
      {"ListTokens", "", false},
      {"ListKeys", "", false},
      {"RevokeKey", "key_hex: 'feedfacefeedface'", false},
  };
  std::set<std::string> called;
  for (const Row& row : rows) {
    const absl::Status said = Call(row.method, row.request);
    const bool refused = ReasonOf(said) == ErrorReason::kPermission;
    EXPECT_EQ(refused, !row.allowed)
        << row.method << " {" << row.request << "}: " << said;
    called.insert(row.method);
  }
  ASSERT_NE(service_, nullptr);
  for (int i = 0; i < service_->method_count(); ++i)
    EXPECT_TRUE(called.contains(service_->method(i)->name()))
        << service_->method(i)->name() << " has no row here";
}

TEST_F(Roles, AreReplacedWhileTheDaemonServes) {
  const auto allowed = [this](const std::string& name) {
    return Call("List", absl::StrCat("cache_namespace: '", name, "'")).ok();
  };
  EXPECT_TRUE(allowed("team-a"));
  EXPECT_FALSE(allowed("team-b"));
  WriteRule("[\"team-b\"]");
  while (!allowed("team-b")) absl::SleepFor(absl::Milliseconds(20));
  EXPECT_FALSE(allowed("team-a"));
  // One that is not good changes nothing, and is told.
  WriteRule("[\"team-a\"");
  while (!absl::StrContains(Audit(), "\"what\":\"replace access rules\"") ||
         !absl::StrContains(Audit(), "\"outcome\":\"BAD_OPTION\"")) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_TRUE(allowed("team-b"));
  EXPECT_FALSE(allowed("team-a"));
}

TEST_F(Roles, ARefusedChangeIsAuditedWithWhatItWouldHaveChanged) {
  EXPECT_EQ(ReasonOf(Call("RevokeToken", "name: 'ci'")),
            ErrorReason::kPermission);
  EXPECT_EQ(ReasonOf(Call("Purge", "cache_namespace: 'team-b' all: true")),
            ErrorReason::kPermission);
  EXPECT_EQ(ReasonOf(Call("Drain", "")), ErrorReason::kPermission);
  const std::string audit = Audit();
  for (const char* line :
       {"\"what\":\"revoke token\",\"subject\":\"ci\","
        "\"outcome\":\"PERMISSION\"",
        "\"what\":\"purge\",\"subject\":\"all in team-b\","
        "\"outcome\":\"PERMISSION\"",
        "\"what\":\"drain\",\"subject\":\"*\",\"outcome\":\"PERMISSION\""}) {
    EXPECT_TRUE(absl::StrContains(audit, line)) << audit;
  }
}

}  // namespace
}  // namespace kiln
