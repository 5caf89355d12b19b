// For tests: a transport that loses something.
#ifndef DPIPE_BENCH_LOSSY_COMMUNICATOR_H_
#define DPIPE_BENCH_LOSSY_COMMUNICATOR_H_

#include <memory>

#include "core/comm/communicator.h"

namespace dpipe::bench {

// Of every message, and of what every collective on tensors reads, one number is another.
std::unique_ptr<Communicator> MakeLossy(std::unique_ptr<Communicator> inner);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_LOSSY_COMMUNICATOR_H_
