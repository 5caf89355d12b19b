// One rank's connections to all others, by Gloo over TCP. Converts Gloo's exceptions to statuses.
#ifndef DPIPE_CORE_COMM_GLOO_GLOO_MESH_H_
#define DPIPE_CORE_COMM_GLOO_GLOO_MESH_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/comm/rendezvous/store/store_client.h"

namespace dpipe {

// Ends waits that exceed their deadline, and all waits once the job has failed.
//
// Thread-safe. Has a thread that watches the time. Only time in which this process runs counts.
class WaitWatch {
 public:
  struct Wait {
    absl::Duration deadline;
    std::function<void()> abort;  // makes the wait return; called on the watch's thread, or Fail's
    absl::Duration waited;
    bool expired = false;
  };
  using WaitId = std::list<Wait>::iterator;

  WaitWatch();
  ~WaitWatch();
  WaitWatch(const WaitWatch&) = delete;
  WaitWatch& operator=(const WaitWatch&) = delete;

  // Starts watching a wait. Returns the failure, if there has been one.
  absl::StatusOr<WaitId> Begin(absl::Duration deadline, std::function<void()> abort);
  // Stops watching the wait and returns its final state. It is not aborted afterwards.
  Wait End(WaitId wait);

  // Ends all current and future waits. Only the first status counts.
  void Fail(const absl::Status& status);
  absl::Status failure() const;

 private:
  void Loop();

  mutable absl::Mutex mutex_;
  std::list<Wait> waits_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// Identifiers of transfers, which both sides compute identically.
//
// Mixes a few numbers into 64 bits. Among the few thousand transfers that a run distinguishes, two
// get the same slot with a probability of 1e-12.
inline uint64_t GlooSlot(std::initializer_list<uint64_t> parts) {
  uint64_t hash = 0x9e3779b97f4a7c15;
  for (uint64_t part : parts) {
    // The finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
    hash += part + 0x9e3779b97f4a7c15;
    hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9;
    hash = (hash ^ hash >> 27) * 0x94d049bb133111eb;
    hash ^= hash >> 31;
  }
  return hash;
}

}  // namespace dpipe

namespace gloo::transport {
class UnboundBuffer;
}  // namespace gloo::transport

namespace dpipe {

// Bytes in transfer. Their memory must stay in place until they have arrived or the transfer is
// destroyed. Transfers between two ranks with the same slot are received in the order sent. Both
// sides must state the same size, or the process ends.
class GlooTransfer {
 public:
  GlooTransfer(std::unique_ptr<gloo::transport::UnboundBuffer> buffer, bool sends, int peer);
  ~GlooTransfer();

 private:
  friend class GlooMesh;
  const std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  const bool sends_;
  const int peer_;
};

// Thread-safe.
class GlooMesh {
 public:
  struct Options {
    std::string name;  // of this mesh in the store: the same on every rank, used once
    int rank = 0;
    int size = 1;
    absl::Duration deadline;  // of any one wait, and of connecting
  };

  // Returns when all ranks are connected to each other and have proved on every connection that
  // they know the job's secret. Later transfers are neither encrypted nor signed. `store` outlives
  // the mesh.
  static absl::StatusOr<std::unique_ptr<GlooMesh>> Connect(StoreClient* store,
                                                           const Options& options);
  ~GlooMesh();

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  const absl::Duration& deadline() const { return options_.deadline; }

  // Start a transfer and return at once.
  absl::StatusOr<std::unique_ptr<GlooTransfer>> Send(int to, uint64_t slot, const void* data,
                                                     int64_t size_bytes);
  absl::StatusOr<std::unique_ptr<GlooTransfer>> Receive(int from, uint64_t slot, void* data,
                                                        int64_t size_bytes);
  // Blocks until the bytes have arrived, or have been taken. Call at most once. `what` names them
  // in errors:
  //   rank 1 waited 1.2s for WHAT from rank 2: rank 2 (pid 7 on node1) has died: ...
  // A deadline that passes ends the waits of all ranks. If `forever`, there is no deadline, but the
  // job's failure still ends the wait.
  absl::Status Wait(GlooTransfer* transfer, const std::string& what, bool forever = false);

  // Returns the job's failure, or OK.
  absl::Status failure() const { return watch_.failure(); }
  void Abort(const absl::Status& status) { store_->Fail(status); }

 private:
  class Connections;

  GlooMesh(StoreClient* store, const Options& options);
  absl::StatusOr<std::unique_ptr<GlooTransfer>> Start(int peer, uint64_t slot, void* data,
                                                      int64_t size_bytes, bool sends);
  // Proves this rank's identity on all connections, and checks that of the peers. `nonces` has one
  // per rank, all generated for this mesh.
  absl::Status ProveConnections(const std::vector<std::string>& nonces);
  absl::Status AwaitProof(GlooTransfer* transfer);
  // Returns why a connection broke. A death first shows as a broken connection, and the store says
  // which process died.
  absl::Status Broken(int peer, const std::string& reason);

  StoreClient* const store_;
  const Options options_;
  WaitWatch watch_;
  std::unique_ptr<Connections> connections_;
  int listener_ = -1;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_GLOO_GLOO_MESH_H_
