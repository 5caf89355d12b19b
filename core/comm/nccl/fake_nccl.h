// NCCL without GPUs, for tests: sends and receives between streams of a FakeDriver.
#ifndef DPIPE_CORE_COMM_NCCL_FAKE_NCCL_H_
#define DPIPE_CORE_COMM_NCCL_FAKE_NCCL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/cuda/nccl_api.h"
#include "core/tensor/cuda/fake_driver.h"

namespace dpipe {

// Behaves as NCCL does with nonblocking communicators. A communicator is there when all its ranks
// are. A group of calls comes to its stream some time after GroupEnd: until then
// ncclCommGetAsyncError gives ncclInProgress. Ranks connect when they first talk in one direction:
// a group with such calls stays in progress until the other sides have called too, and can connect
// with all those that their own groups want. On the stream a group's calls block it together until
// the other side of each has come to it; nothing is sent before it is received. Of several calls to
// one rank, or from one, all but the first wait there until the group's others are through. Calls
// of a pair of ranks match in their order. An abort returns when nothing of the communicator is
// left on the stream. One at a time in a process; `driver` outlives it.
class FakeNccl {
 public:
  explicit FakeNccl(cuda::FakeDriver* driver);
  ~FakeNccl();

  const NcclApi* api() const { return &api_; }
  // From now on every communicator of `rank` reports that error.
  void Break(int rank, ncclResult_t error);
  // Messages whose sides were not of one size, calls of communicators that had one in progress,
  // groups of several communicators, and aborts that wait for ever, in words; empty: none.
  std::vector<std::string> violations() const;
  // How many bytes have gone from one rank to another.
  int64_t SentBytes(int from, int to) const;
  // How many messages had been sent but not read by the receiver's stream yet when the sender's
  // communicator was aborted, which takes away the buffers that they lie in. In a job that has not
  // failed, none.
  int num_unread() const;
  // Communicators that have been neither aborted nor destroyed.
  int num_live_communicators() const;

 private:
  NcclApi api_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_FAKE_NCCL_H_
