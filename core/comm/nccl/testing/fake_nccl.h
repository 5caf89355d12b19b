// Fake NCCL for tests without GPUs: sends and receives between streams of a FakeDriver.
#ifndef DPIPE_CORE_COMM_NCCL_TESTING_FAKE_NCCL_H_
#define DPIPE_CORE_COMM_NCCL_TESTING_FAKE_NCCL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/cuda/nccl_api.h"
#include "core/tensor/cuda/testing/fake_driver.h"

namespace dpipe {

// Behaves as NCCL does with nonblocking communicators:
// - A communicator exists when all its ranks have joined.
// - A group of calls reaches its stream some time after GroupEnd. Until then ncclCommGetAsyncError
//   returns ncclInProgress.
// - Two ranks connect at their first call in each direction. A group with such calls stays in
//   progress until the other sides have called too, and can connect with all ranks that their own
//   groups need.
// - A group's calls together block their stream until the other side of each has been reached.
//   Nothing is sent before it is received.
// - Of several calls to one rank, or from one rank, all but the first wait until the group's other
//   calls have completed.
// - Calls of a pair of ranks match in order.
// - An abort returns when nothing of the communicator is left on the stream.
//
// At most one instance per process. `driver` outlives it.
class FakeNccl {
 public:
  explicit FakeNccl(cuda::FakeDriver* driver);
  ~FakeNccl();

  const NcclApi* api() const { return &api_; }
  // Makes every communicator of `rank` report that error from now on.
  void Break(int rank, ncclResult_t error);
  // Returns descriptions of misuse: messages of different sizes on both sides, calls of
  // communicators with a call in progress, groups of several communicators, and aborts that wait
  // forever.
  std::vector<std::string> violations() const;
  // Returns the number of bytes that one rank has sent to another.
  int64_t SentBytes(int from, int to) const;
  // Returns the number of messages that the receiver's stream had not read yet when the sender's
  // communicator was aborted. An abort frees the buffers that hold them. Zero in a job that has not
  // failed.
  int num_unread() const;
  // Returns the number of communicators that have been neither aborted nor destroyed.
  int num_live_communicators() const;

 private:
  NcclApi api_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_TESTING_FAKE_NCCL_H_
