#include "server/service_methods.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

// Adds unary methods of `Service`, which `name` is the full name of.
template <typename Service>
class UnaryAdder {
 public:
  using Method = grpc::ServerUnaryReactor* (
      Service::*)(RawMethods::Context*, const RawMethods::Bytes*,
                  RawMethods::Bytes*);

  UnaryAdder(const char* name, Service& service, RawMethods& methods)
      : name_(name), service_(service), methods_(methods) {}

  void Add(const char* method, Method call) {
    methods_.unary[absl::StrCat("/", name_, "/", method)] =
        [&service = service_, call](RawMethods::Context* context,
                                    const RawMethods::Bytes* request,
                                    RawMethods::Bytes* reply) {
          return (service.*call)(context, request, reply);
        };
  }

 private:
  const std::string name_;
  Service& service_;
  RawMethods& methods_;
};

}  // namespace

void AddMethods(CompileService& service, RawMethods& methods) {
  UnaryAdder<CompileService> unary(wire::CompileService::service_full_name(),
                                   service, methods);
  unary.Add("Lookup", &CompileService::Lookup);
  unary.Add("Describe", &CompileService::Describe);
  methods.streams[absl::StrCat("/", wire::CompileService::service_full_name(),
                               "/Compile")] =
      [&service](RawMethods::Context* context,
                 const RawMethods::Bytes* request) {
        return service.Compile(context, request);
      };
}

void AddMethods(AdminService& service, RawMethods& methods) {
  UnaryAdder<AdminService> unary(wire::AdminService::service_full_name(),
                                 service, methods);
  unary.Add("Stats", &AdminService::Stats);
  unary.Add("Jobs", &AdminService::Jobs);
  unary.Add("Workers", &AdminService::Workers);
  unary.Add("ListQuarantine", &AdminService::ListQuarantine);
  unary.Add("List", &AdminService::List);
  unary.Add("Show", &AdminService::Show);
  unary.Add("Explain", &AdminService::Explain);
  unary.Add("Purge", &AdminService::Purge);
  unary.Add("Pin", &AdminService::Pin);
  unary.Add("Maintain", &AdminService::Maintain);
  unary.Add("Tune", &AdminService::Tune);
  unary.Add("Drain", &AdminService::Drain);
  unary.Add("AddToken", &AdminService::AddToken);
  unary.Add("RevokeToken", &AdminService::RevokeToken);
  unary.Add("ListTokens", &AdminService::ListTokens);
  unary.Add("ListKeys", &AdminService::ListKeys);
  unary.Add("RotateKey", &AdminService::RotateKey);
  unary.Add("RevokeKey", &AdminService::RevokeKey);
}

void AddMethods(CacheService& service, RawMethods& methods) {
  UnaryAdder<CacheService> unary(wire::CacheService::service_full_name(),
                                 service, methods);
  unary.Add("Hints", &CacheService::Hints);
  unary.Add("Get", &CacheService::Get);
  unary.Add("Put", &CacheService::Put);
  unary.Add("Erase", &CacheService::Erase);
}

}  // namespace kiln
