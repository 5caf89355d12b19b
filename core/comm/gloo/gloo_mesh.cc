#include "core/comm/gloo/gloo_mesh.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/running_clock.h"
#include "core/comm/rendezvous/job_secret.h"
#include "core/comm/rendezvous/store/store_client.h"
#include "gloo/rendezvous/context.h"
#include "gloo/rendezvous/store.h"
#include "gloo/transport/tcp/device.h"
#include "gloo/transport/unbound_buffer.h"

namespace dpipe {

namespace {

constexpr absl::Duration kTick = absl::Milliseconds(20);

}  // namespace

WaitWatch::WaitWatch() {
  thread_ = std::thread([this] { Loop(); });
}

WaitWatch::~WaitWatch() {
  stopping_ = true;
  thread_.join();
}

absl::StatusOr<WaitWatch::WaitId> WaitWatch::Begin(absl::Duration deadline,
                                                   std::function<void()> abort) {
  absl::MutexLock lock(&mutex_);
  if (!failure_.ok()) return failure_;
  return waits_.insert(waits_.end(), Wait{deadline, std::move(abort), absl::ZeroDuration(), false});
}

WaitWatch::Wait WaitWatch::End(WaitId wait) {
  absl::MutexLock lock(&mutex_);
  Wait ended = std::move(*wait);
  waits_.erase(wait);
  return ended;
}

void WaitWatch::Fail(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (!failure_.ok()) return;
  failure_ = status;
  for (Wait& wait : waits_) wait.abort();
}

absl::Status WaitWatch::failure() const {
  absl::MutexLock lock(&mutex_);
  return failure_;
}

void WaitWatch::Loop() {
  RunningClock clock(5 * kTick);
  while (!stopping_) {
    // Not a wait on the mutex, which ends at a time of day.
    absl::SleepFor(kTick);
    const absl::Duration lap = clock.Lap();
    absl::MutexLock lock(&mutex_);
    for (Wait& wait : waits_) {
      wait.waited += lap;
      if (wait.expired || wait.waited < wait.deadline) continue;
      wait.expired = true;
      wait.abort();
    }
  }
}

namespace {

// Gloo's own timeouts close every connection of the process, so WaitWatch enforces deadlines
// instead.
constexpr auto kNoTimeout = std::chrono::hours(24 * 365);
// Time limit for connecting once all ranks are present.
constexpr absl::Duration kConnectTime = absl::Seconds(20);
// How long the store may take to notice a death after the connection broke.
constexpr absl::Duration kGrace = absl::Seconds(2);

std::chrono::milliseconds Millis(absl::Duration duration) {
  return absl::ToChronoMilliseconds(duration);
}

// The ranks' addresses, exchanged through the job's store.
class AddressStore : public ::gloo::rendezvous::Store {
 public:
  AddressStore(StoreClient* store, std::string prefix, absl::Duration deadline)
      : store_(store), prefix_(std::move(prefix)), deadline_(deadline) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    Throw(store_->Set(prefix_ + key, std::string(data.begin(), data.end())));
  }
  std::vector<char> get(const std::string& key) override {
    const auto value = store_->Get(prefix_ + key, "the addresses of " + key, deadline_);
    Throw(value.status());
    return std::vector<char>(value->begin(), value->end());
  }
  // Does nothing, because get waits.
  void wait(const std::vector<std::string>&) override {}

 private:
  static void Throw(const absl::Status& status) {
    if (!status.ok()) throw std::runtime_error(std::string(status.message()));
  }

  StoreClient* const store_;
  const std::string prefix_;
  const absl::Duration deadline_;
};

}  // namespace

GlooTransfer::GlooTransfer(std::unique_ptr<gloo::transport::UnboundBuffer> buffer, bool sends,
                           int peer)
    : buffer_(std::move(buffer)), sends_(sends), peer_(peer) {}

GlooTransfer::~GlooTransfer() = default;

class GlooMesh::Connections {
 public:
  // Throws if connecting fails.
  Connections(StoreClient* store, const Options& options) : context_(options.rank, options.size) {
    ::gloo::transport::tcp::attr attributes;
    attributes.hostname = store->address();
    auto device = ::gloo::transport::tcp::CreateDevice(attributes);
    context_.setTimeout(Millis(std::min(options.deadline, kConnectTime)));
    AddressStore addresses(store, absl::StrCat("gloo/", options.name, "/"), options.deadline);
    context_.connectFullMesh(addresses, device);
  }

  std::unique_ptr<::gloo::transport::UnboundBuffer> Buffer(void* data, int64_t size_bytes) {
    return context_.createUnboundBuffer(data, size_bytes);
  }

 private:
  ::gloo::rendezvous::Context context_;
};

GlooMesh::GlooMesh(StoreClient* store, const Options& options) : store_(store), options_(options) {
  listener_ =
      store_->AddFailureListener([this](const absl::Status& status) { watch_.Fail(status); });
}

GlooMesh::~GlooMesh() { store_->RemoveFailureListener(listener_); }

absl::StatusOr<std::unique_ptr<GlooMesh>> GlooMesh::Connect(StoreClient* store,
                                                            const Options& options) {
  auto mesh = std::unique_ptr<GlooMesh>(new GlooMesh(store, options));
  if (options.size == 1) return mesh;
  // Once all ranks are present, connecting takes no time unless one of them dies, which the store's
  // waits notice.
  const auto nonces =
      ExchangeTexts(store, absl::StrCat("gloo/", options.name, "/here"), options.rank, options.size,
                    RandomBytes(kHmacBytes), "to connect to", options.deadline);
  if (!nonces.ok()) {
    mesh->Abort(nonces.status());
    return nonces.status();
  }
  try {
    mesh->connections_ = std::make_unique<Connections>(store, options);
  } catch (const std::exception& e) {
    store->AwaitFailure(kGrace);
    const absl::Status failure = store->failure();  // the mesh may be notified later
    const absl::Status status = absl::UnavailableError(absl::StrCat(
        "rank ", options.rank, " at ", store->address(), ", connecting to the other ",
        options.size - 1, " ranks: ", failure.ok() ? e.what() : std::string(failure.message())));
    mesh->Abort(status);
    return status;
  }
  DPIPE_RETURN_IF_ERROR(mesh->ProveConnections(*nonces));
  return mesh;
}

// Gloo accepts the first connection, so each side proves its identity before any tensor is sent.
absl::Status GlooMesh::ProveConnections(const std::vector<std::string>& nonces) {
  const auto proof = [&](int from, int to) {
    return store_->Sign(absl::StrCat("data of ", options_.name, " from rank ", from, " to rank ",
                                     to, ":", nonces[from], nonces[to]));
  };
  constexpr uint64_t kSlot = 4;  // other slots are hashes (gloo_slot.h)
  std::vector<std::string> sent(size()), received(size(), std::string(kHmacBytes, '\0'));
  std::vector<std::unique_ptr<GlooTransfer>> sends(size()), receives(size());
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    sent[peer] = proof(rank(), peer);
    DPIPE_ASSIGN_OR_RETURN(sends[peer], Send(peer, kSlot, sent[peer].data(), kHmacBytes));
    DPIPE_ASSIGN_OR_RETURN(receives[peer], Receive(peer, kSlot, &received[peer][0], kHmacBytes));
  }
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    DPIPE_RETURN_IF_ERROR(AwaitProof(receives[peer].get()));
    if (!SameBytes(received[peer], proof(peer, rank()))) {
      const absl::Status status = absl::UnavailableError(
          absl::StrCat("rank ", rank(), "'s connection to rank ", peer,
                       " leads to a peer that does not know the job's secret"));
      Abort(status);
      return status;
    }
    DPIPE_RETURN_IF_ERROR(AwaitProof(sends[peer].get()));
  }
  return absl::OkStatus();
}

// A peer that has proved itself may fail or leave at once, which ends every wait here. What it sent
// before that still arrives, so success in connecting does not depend on which rank is faster.
absl::Status GlooMesh::AwaitProof(GlooTransfer* transfer) {
  const absl::Status status = Wait(transfer, "the proof of its identity");
  if (status.ok()) return status;
  try {
    ::gloo::transport::UnboundBuffer* buffer = transfer->buffer_.get();
    const bool done =
        transfer->sends_ ? buffer->waitSend(Millis(kGrace)) : buffer->waitRecv(Millis(kGrace));
    return done ? absl::OkStatus() : status;
  } catch (const std::exception&) {
    return status;
  }
}

absl::StatusOr<std::unique_ptr<GlooTransfer>> GlooMesh::Send(int to, uint64_t slot,
                                                             const void* data, int64_t size_bytes) {
  return Start(to, slot, const_cast<void*>(data), size_bytes, /*sends=*/true);
}

absl::StatusOr<std::unique_ptr<GlooTransfer>> GlooMesh::Receive(int from, uint64_t slot, void* data,
                                                                int64_t size_bytes) {
  return Start(from, slot, data, size_bytes, /*sends=*/false);
}

absl::StatusOr<std::unique_ptr<GlooTransfer>> GlooMesh::Start(int peer, uint64_t slot, void* data,
                                                              int64_t size_bytes, bool sends) {
  DPIPE_RETURN_IF_ERROR(failure());
  try {
    auto buffer = connections_->Buffer(data, size_bytes);
    if (sends) {
      buffer->send(peer, slot);
    } else {
      buffer->recv(peer, slot);
    }
    return std::make_unique<GlooTransfer>(std::move(buffer), sends, peer);
  } catch (const std::exception& e) {
    return Broken(peer, e.what());
  }
}

absl::Status GlooMesh::Wait(GlooTransfer* transfer, const std::string& what, bool forever) {
  ::gloo::transport::UnboundBuffer* buffer = transfer->buffer_.get();
  const bool sends = transfer->sends_;
  auto described = [&](absl::Duration waited, const absl::Status& reason) {
    return absl::Status(
        reason.code(),
        absl::StrCat("rank ", rank(), " waited ",
                     absl::FormatDuration(absl::Trunc(waited, absl::Milliseconds(1))), " for ",
                     what, sends ? " to be received by rank " : " from rank ", transfer->peer_,
                     reason.message().empty() ? "" : ": ", reason.message()));
  };
  const auto wait = watch_.Begin(forever ? absl::InfiniteDuration() : deadline(), [=] {
    sends ? buffer->abortWaitSend() : buffer->abortWaitRecv();
  });
  if (!wait.ok()) return described(absl::ZeroDuration(), wait.status());
  bool done = false;
  std::string broken;
  try {
    done = sends ? buffer->waitSend(kNoTimeout) : buffer->waitRecv(kNoTimeout);
  } catch (const std::exception& e) {
    broken = e.what();
  }
  const WaitWatch::Wait ended = watch_.End(*wait);
  if (done) return absl::OkStatus();
  if (!broken.empty()) return described(ended.waited, Broken(transfer->peer_, broken));
  absl::Status reason = failure();
  if (reason.ok()) {
    reason = described(deadline(), absl::DeadlineExceededError(""));
    Abort(reason);
    return reason;
  }
  return described(ended.waited, reason);
}

absl::Status GlooMesh::Broken(int peer, const std::string& reason) {
  if (!store_->AwaitFailure(kGrace)) {
    Abort(absl::UnavailableError(
        absl::StrCat("rank ", rank(), "'s connection to rank ", peer, " broke: ", reason)));
  }
  return store_->failure();
}

}  // namespace dpipe
