// A transport for tests that corrupts data.
#ifndef DPIPE_BENCH_TRANSPORTS_LOSSY_COMMUNICATOR_H_
#define DPIPE_BENCH_TRANSPORTS_LOSSY_COMMUNICATOR_H_

#include <memory>

#include "core/comm/communicator.h"

namespace dpipe::bench {

// Returns a communicator that changes one number of every message and of every collective's input.
std::unique_ptr<Communicator> MakeLossy(std::unique_ptr<Communicator> inner);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_TRANSPORTS_LOSSY_COMMUNICATOR_H_
