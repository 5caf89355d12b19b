#include "core/comm/testing/store_ranks.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/barrier.h"
#include "core/base/check.h"
#include "core/comm/rendezvous/socket.h"

namespace dpipe {
namespace {

void MeetAt(absl::Barrier* barrier) {
  if (barrier->Block()) delete barrier;
}

}  // namespace

StoreRanks::StoreRanks(int size, absl::Duration silence) : size_(size) {
  auto listener = ListenOnLoopback();
  DPIPE_CHECK(listener.ok()) << listener.status();
  StoreServerOptions options;
  options.secret = secret_;
  options.num_processes = size;
  options.silence = silence;
  store_ = std::make_unique<StoreServer>(*std::move(listener), options);
}

absl::StatusOr<std::unique_ptr<StoreClient>> StoreRanks::Join(int rank) const {
  StoreClientOptions options;
  options.host = "127.0.0.1";
  options.port = port();
  options.secret = secret_;
  options.process = rank;
  options.num_processes = size_;
  options.name = absl::StrCat("rank ", rank, " (pid 5 on node1)");
  return StoreClient::Join(options);
}

std::vector<absl::Status> StoreRanks::RunJoined(
    int count, const std::function<absl::Status(StoreClient* store, int rank)>& body,
    const std::function<void()>& meanwhile) const {
  std::vector<std::unique_ptr<StoreClient>> clients(count);
  std::vector<absl::Status> statuses(count);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      auto client = Join(rank);
      DPIPE_CHECK(client.ok()) << client.status();
      clients[rank] = *std::move(client);
      statuses[rank] = body(clients[rank].get(), rank);
    });
  }
  meanwhile();
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

std::vector<absl::Status> StoreRanks::Run(const Connect& connect,
                                          const Transport::Body& body) const {
  auto* all_there = new absl::Barrier(size_);
  auto* all_done = new absl::Barrier(size_);
  return RunJoined(size_, [&](StoreClient* store, int rank) {
    const auto communicator = connect(store, rank);
    DPIPE_CHECK(communicator.ok()) << communicator.status();
    MeetAt(all_there);
    const absl::Status status = body(**communicator);
    MeetAt(all_done);
    return status;
  });
}

}  // namespace dpipe
