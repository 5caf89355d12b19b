// Ranks on threads for tests, each with its own connection to a store, as if it were a process.
#ifndef DPIPE_CORE_COMM_TESTING_STORE_RANKS_H_
#define DPIPE_CORE_COMM_TESTING_STORE_RANKS_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/comm/rendezvous/job_secret.h"
#include "core/comm/rendezvous/store/store_client.h"
#include "core/comm/rendezvous/store/store_server.h"
#include "core/comm/testing/conformance.h"

namespace dpipe {

class StoreRanks {
 public:
  explicit StoreRanks(int size, absl::Duration silence = absl::Seconds(20));

  // Returns when all ranks have joined. The rank's name in messages is "rank 1 (pid 5 on node1)".
  absl::StatusOr<std::unique_ptr<StoreClient>> Join(int rank) const;

  // Runs `body` on one thread for each of the first `count` ranks, all joined, and `meanwhile` on
  // the calling thread. Returns statuses by rank. Ranks leave the store when all bodies have
  // returned.
  std::vector<absl::Status> RunJoined(
      int count, const std::function<absl::Status(StoreClient* store, int rank)>& body,
      const std::function<void()>& meanwhile = [] {}) const;

  // Returns statuses by rank. Communicators are destroyed only when all bodies have returned.
  using Connect =
      std::function<absl::StatusOr<std::unique_ptr<Communicator>>(StoreClient* store, int rank)>;
  std::vector<absl::Status> Run(const Connect& connect, const Transport::Body& body) const;

  int size() const { return size_; }
  int port() const { return store_->port(); }
  const JobSecret& secret() const { return secret_; }

 private:
  const int size_;
  const JobSecret secret_ = JobSecret::Random();
  std::unique_ptr<StoreServer> store_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_TESTING_STORE_RANKS_H_
