// A barrier for all ranks of a job.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_STORE_MEET_RANKS_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_STORE_MEET_RANKS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/comm/rendezvous/store/store_client.h"

namespace dpipe {

// Returns when all of `size` ranks have called it with this key, which is used once. The job's
// failure ends the wait. `why` completes the text of errors: "waited 5s for rank 3 to connect to".
// Sends `size` messages from each rank to the store.
absl::Status MeetRanks(StoreClient* store, const std::string& key, int rank, int size,
                       const std::string& why, absl::Duration deadline = absl::InfiniteDuration());

// The same, but each rank contributes a text. Returns all texts, by rank.
absl::StatusOr<std::vector<std::string>> ExchangeTexts(
    StoreClient* store, const std::string& key, int rank, int size, const std::string& text,
    const std::string& why, absl::Duration deadline = absl::InfiniteDuration());

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_STORE_MEET_RANKS_H_
