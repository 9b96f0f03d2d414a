#include "server/admitted_call.h"

#include <atomic>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "proto/base/mutex.h"

namespace kiln {
namespace {

using Bytes = RawMethods::Bytes;

// The order of what happens to a call. gRPC keeps it with locks that
// ThreadSanitizer does not see; this says it again: all before a Give comes before
// all behind a later Take.
class CallOrder {
 public:
  void Give() { gifts_.fetch_add(1, std::memory_order_release); }
  void Take() { gifts_.load(std::memory_order_acquire); }

 private:
  std::atomic<int> gifts_ = 0;
};

// One of gRPC's reactions, in the order of its call. The call outlives it.
class Reaction {
 public:
  explicit Reaction(CallOrder& order) : order_(order) { order_.Take(); }
  ~Reaction() { order_.Give(); }

 private:
  CallOrder& order_;
};

// What both kinds of calls share: the message, the method's reactor, and who hears
// of the end first.
template <typename Reactor>
class AdmittedCall : public grpc::ServerGenericBidiReactor {
 public:
  AdmittedCall(RawMethods::Context* context,
               ConnectionWatch::WatchedCall watched)
      : context_(context), watched_(std::move(watched)) {}

  // gRPC calls OnDone after this has returned.
  void OnReadDone(bool ok) final {
    const Reaction reaction(order_);
    if (!ok) {
      return Finish(grpc::Status(grpc::StatusCode::CANCELLED,
                                 "call: ended before its message"));
    }
    Reactor* const reactor = Begin(context_, &request_);
    bool cancelled = false;
    {
      MutexLock lock(&mu_);
      reactor_ = reactor;
      cancelled = cancelled_;
    }
    Bind(reactor);
    if (cancelled) reactor->OnCancel();
  }

  void OnCancel() final {
    const Reaction reaction(order_);
    watched_.HearReset();
    Reactor* begun = nullptr;
    {
      MutexLock lock(&mu_);
      cancelled_ = true;
      begun = reactor_;
    }
    if (begun != nullptr) begun->OnCancel();
  }

  void OnSendInitialMetadataDone(bool ok) final {
    const Reaction reaction(order_);
    reactor()->OnSendInitialMetadataDone(ok);
  }

  void OnDone() final {
    order_.Take();
    Reactor* const begun = reactor();
    if (begun != nullptr) begun->OnDone();
    delete this;
  }

 protected:
  // Calls the method.
  virtual Reactor* Begin(RawMethods::Context* context,
                         const Bytes* request) = 0;
  // Gives its reactor the call that it acts on.
  virtual void Bind(Reactor* reactor) = 0;

  // The last that a constructor does.
  void Read() {
    order_.Give();
    StartRead(&request_);
  }
  // Before each step that gRPC answers with a reaction.
  CallOrder& order() { return order_; }
  // Before the last step.
  void GiveAnswer() {
    watched_.HearAnswer();
    order_.Give();
  }
  Reactor* reactor() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return reactor_;
  }

 private:
  RawMethods::Context* const context_;
  ConnectionWatch::WatchedCall watched_;
  Bytes request_;
  CallOrder order_;
  Mutex mu_;
  Reactor* reactor_ ABSL_GUARDED_BY(mu_) = nullptr;  // null until it was read
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
};

class UnaryCall final : public AdmittedCall<grpc::ServerUnaryReactor> {
 public:
  UnaryCall(RawMethods::Context* context, const RawMethods::Unary& method,
            ConnectionWatch::WatchedCall watched)
      : AdmittedCall(context, std::move(watched)),
        method_(method),
        actions_(*this) {
    Read();
  }

 private:
  // What the method's reactor does, done on the generic call.
  class Actions final : public grpc::ServerCallbackUnary {
   public:
    explicit Actions(UnaryCall& call) : call_(call) {}
    void Finish(grpc::Status status) override {
      call_.GiveAnswer();
      if (!status.ok()) return call_.Finish(std::move(status));
      call_.StartWriteAndFinish(&call_.reply_, grpc::WriteOptions(),
                                std::move(status));
    }
    void SendInitialMetadata() override {
      call_.order().Give();
      call_.StartSendInitialMetadata();
    }
    void BindTo(grpc::ServerUnaryReactor* reactor) { BindReactor(reactor); }

   private:
    // Of calls that gRPC counts itself; the generic call is the one counted.
    grpc::internal::ServerReactor* reactor() override {
      return call_.reactor();
    }
    void CallOnDone() override {}

    UnaryCall& call_;
  };

  grpc::ServerUnaryReactor* Begin(RawMethods::Context* context,
                                  const Bytes* request) override {
    return method_(context, request, &reply_);
  }
  void Bind(grpc::ServerUnaryReactor* reactor) override {
    actions_.BindTo(reactor);
  }

  const RawMethods::Unary& method_;
  Bytes reply_;
  Actions actions_;
};

class StreamCall final : public AdmittedCall<grpc::ServerWriteReactor<Bytes>> {
 public:
  StreamCall(RawMethods::Context* context, const RawMethods::Stream& method,
             ConnectionWatch::WatchedCall watched)
      : AdmittedCall(context, std::move(watched)),
        method_(method),
        actions_(*this) {
    Read();
  }

  void OnWriteDone(bool ok) override {
    const Reaction reaction(order());
    reactor()->OnWriteDone(ok);
  }

 private:
  // As UnaryCall's.
  class Actions final : public grpc::ServerCallbackWriter<Bytes> {
   public:
    explicit Actions(StreamCall& call) : call_(call) {}
    void Finish(grpc::Status status) override {
      call_.GiveAnswer();
      call_.Finish(std::move(status));
    }
    void SendInitialMetadata() override {
      call_.order().Give();
      call_.StartSendInitialMetadata();
    }
    void Write(const Bytes* message, grpc::WriteOptions options) override {
      call_.order().Give();
      call_.StartWrite(message, options);
    }
    void WriteAndFinish(const Bytes* message, grpc::WriteOptions options,
                        grpc::Status status) override {
      call_.GiveAnswer();
      call_.StartWriteAndFinish(message, options, std::move(status));
    }
    void BindTo(grpc::ServerWriteReactor<Bytes>* reactor) {
      BindReactor(reactor);
    }

   private:
    grpc::internal::ServerReactor* reactor() override {
      return call_.reactor();
    }
    void CallOnDone() override {}

    StreamCall& call_;
  };

  grpc::ServerWriteReactor<Bytes>* Begin(RawMethods::Context* context,
                                         const Bytes* request) override {
    return method_(context, request);
  }
  void Bind(grpc::ServerWriteReactor<Bytes>* reactor) override {
    actions_.BindTo(reactor);
  }

  const RawMethods::Stream& method_;
  Actions actions_;
};

}  // namespace

grpc::ServerGenericBidiReactor* NewAdmittedCall(
    RawMethods::Context* context, const RawMethods::Unary& method,
    ConnectionWatch::WatchedCall watched) {
  return new UnaryCall(context, method, std::move(watched));
}

grpc::ServerGenericBidiReactor* NewAdmittedCall(
    RawMethods::Context* context, const RawMethods::Stream& method,
    ConnectionWatch::WatchedCall watched) {
  return new StreamCall(context, method, std::move(watched));
}

}  // namespace kiln
