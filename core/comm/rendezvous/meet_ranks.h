// A point that all ranks of a job come to.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_MEET_RANKS_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_MEET_RANKS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/comm/rendezvous/store_client.h"

namespace dpipe {

// Returns when all of `size` ranks have called it with this key, which is used once. The job's
// failure ends the wait. `why` completes what errors say: "waited 5s for rank 3 to connect to".
// Costs `size` messages to the store from each rank.
absl::Status MeetRanks(StoreClient* store, const std::string& key, int rank, int size,
                       const std::string& why, absl::Duration deadline = absl::InfiniteDuration());

// The same, where every rank brings a text; gives the texts of all, by rank.
absl::StatusOr<std::vector<std::string>> ExchangeTexts(
    StoreClient* store, const std::string& key, int rank, int size, const std::string& text,
    const std::string& why, absl::Duration deadline = absl::InfiniteDuration());

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_MEET_RANKS_H_
