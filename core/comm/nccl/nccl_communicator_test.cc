#include "core/comm/nccl/nccl_communicator.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "core/base/philox.h"
#include "core/base/reduction_chunks.h"
#include "core/base/shard.h"
#include "core/comm/nccl/connect_nccl.h"
#include "core/comm/nccl/reduction_slices.h"
#include "core/comm/nccl/testing/fake_nccl.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/testing/host_values.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// `size` fake GPUs with one rank each.
class NcclJob {
 public:
  explicit NcclJob(int size, absl::Duration deadline = absl::Seconds(60), uint64_t seed = 1)
      : driver_(seed), nccl_(&driver_) {
    driver_.SetNumGpus(size);
    devices_ = *cuda::CreateCudaDevices(&driver_, size);
    auto communicators = CreateLocalNcclCommunicators(nccl_.api(), devices_, deadline);
    EXPECT_TRUE(communicators.ok()) << communicators.status();
    communicators_ = *std::move(communicators);
  }
  ~NcclJob() {
    communicators_.clear();
    EXPECT_EQ(nccl_.num_live_communicators(), 0);
    devices_.clear();
    EXPECT_THAT(driver_.violations(), IsEmpty());
    EXPECT_THAT(nccl_.violations(), IsEmpty());
    EXPECT_EQ(driver_.num_live_handles(), 0);
  }

  std::vector<absl::Status> Run(
      const std::function<absl::Status(Communicator&, const std::shared_ptr<Device>&)>& body) {
    std::vector<absl::Status> statuses(devices_.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < devices_.size(); ++i) {
      threads.emplace_back([&, i] { statuses[i] = body(*communicators_[i], devices_[i]); });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }
  FakeNccl& nccl() { return nccl_; }
  void set_memory_limit(int64_t bytes) { driver_.set_memory_limit(bytes); }
  void set_queue_limit(size_t count) { driver_.set_queue_limit(count); }
  // Destroys the communicators, starting with rank 0.
  void Disconnect() { communicators_.clear(); }
  // Runs all GPU work that can complete.
  void LetGpusRun() { driver_.RunAll(); }
  int64_t live_bytes() {
    driver_.RunAll();
    return driver_.live_bytes();
  }

 private:
  cuda::FakeDriver driver_;
  FakeNccl nccl_;
  std::vector<std::shared_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

Tensor Vector(const std::shared_ptr<Device>& device, const std::vector<float>& values) {
  return Tensor::FromHost<float>(device, {static_cast<int64_t>(values.size())},
                                 absl::MakeConstSpan(values));
}

void ExpectAllOk(const std::vector<absl::Status>& statuses) {
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

// A ring of messages in both directions, each created just before it is sent and dropped right
// after, with streams of any speed.
TEST(NcclCommunicatorTest, MessagesArriveInAnyStreamOrder) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    NcclJob job(3, absl::Seconds(60), seed);
    ExpectAllOk(job.Run([](Communicator& comm, const auto& device) -> absl::Status {
      const int rank = comm.rank().value();
      const Rank next((rank + 1) % 3), previous((rank + 2) % 3);
      for (int i = 0; i < 6; ++i) {
        const float value = static_cast<float>(10 * rank + i);
        // Rank 0 sends first; otherwise all ranks would wait for each other with blocking messages.
        const auto send = [&] {
          return comm.Send(next, i, {Vector(device, {value, -value}), Vector(device, {value})},
                           "ring");
        };
        if (rank == 0) DPIPE_RETURN_IF_ERROR(send());
        DPIPE_ASSIGN_OR_RETURN(
            auto recv,
            comm.PostRecv(previous, i, {{{2}, DType::kF32}, {{1}, DType::kF32}}, "ring"));
        if (rank != 0) DPIPE_RETURN_IF_ERROR(send());
        DPIPE_ASSIGN_OR_RETURN(const auto tensors, recv->Wait());
        const float expected = static_cast<float>(10 * previous.value() + i);
        EXPECT_EQ(HostValues(tensors[0]), (std::vector<float>{expected, -expected}));
        EXPECT_EQ(HostValues(tensors[1]), (std::vector<float>{expected}));
      }
      return absl::OkStatus();
    }));
  }
}

// Messages from rank to rank. The receiver may wait for them or not.
struct Exchange {
  int from, to;
  std::vector<TensorSpec> specs = {{{3}, DType::kF32}};
};
using MessageRun = std::vector<Exchange>;

// Executes a rank's runs one after another. Between two runs it waits for the received messages.
absl::Status RunMessages(Communicator& comm, const std::shared_ptr<Device>& device,
                         const std::vector<MessageRun>& runs) {
  for (const MessageRun& run : runs) {
    std::vector<std::unique_ptr<PendingRecv>> pending;
    std::vector<int> from;
    comm.BeginMessages();
    for (const Exchange& e : run) {
      if (Rank(e.from) == comm.rank()) {
        std::vector<Tensor> tensors;
        for (const TensorSpec& spec : e.specs) {
          const float value = static_cast<float>(100 * e.from + tensors.size());
          const std::vector<float> values(spec.shape.num_elements(), value);
          tensors.push_back(Vector(device, values).To(spec.dtype).Reshape(spec.shape));
        }
        DPIPE_RETURN_IF_ERROR(comm.Send(Rank(e.to), 0, tensors, "activation"));
      } else if (Rank(e.to) == comm.rank()) {
        DPIPE_ASSIGN_OR_RETURN(pending.emplace_back(),
                               comm.PostRecv(Rank(e.from), 0, e.specs, "activation"));
        from.push_back(e.from);
      }
    }
    DPIPE_RETURN_IF_ERROR(comm.EndMessages());
    for (size_t i = 0; i < pending.size(); ++i) {
      DPIPE_ASSIGN_OR_RETURN(const std::vector<Tensor> tensors, pending[i]->Wait());
      for (size_t j = 0; j < tensors.size(); ++j) {
        const float value = static_cast<float>(100 * from[i] + j);
        for (float each : HostValues(tensors[j].To(DType::kF32))) EXPECT_EQ(each, value);
      }
    }
  }
  return device->Synchronize();
}

absl::Status ExpectMessages(Communicator& comm, const std::vector<MessageRun>& runs) {
  std::set<Rank> to, from;
  for (const MessageRun& run : runs) {
    for (const Exchange& e : run) {
      if (Rank(e.from) == comm.rank()) to.insert(Rank(e.to));
      if (Rank(e.to) == comm.rank()) from.insert(Rank(e.from));
    }
  }
  return comm.ExpectMessages(std::vector<Rank>(to.begin(), to.end()),
                             std::vector<Rank>(from.begin(), from.end()));
}

// Runs by rank. No rank waits for the deadline unless something is wrong.
void ExpectToEnd(const std::vector<std::vector<MessageRun>>& runs) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    NcclJob job(static_cast<int>(runs.size()), absl::Seconds(5), seed);
    ExpectAllOk(job.Run([&](Communicator& comm, const auto& device) -> absl::Status {
      const std::vector<MessageRun>& own = runs[comm.rank().value()];
      DPIPE_RETURN_IF_ERROR(ExpectMessages(comm, own));
      return RunMessages(comm, device, own);
    }));
  }
}

// Each rank's first message to the other waits for it to call, and both send first.
TEST(NcclCommunicatorTest, BothRanksMaySendFirst) {
  NcclJob job(2, absl::Seconds(5));
  ExpectAllOk(job.Run([&](Communicator& comm, const auto& device) {
    const Exchange there{0, 1}, back{1, 0};
    return RunMessages(
        comm, device, {comm.rank() == Rank(0) ? MessageRun{there, back} : MessageRun{back, there}});
  }));
}

// Rank 2 sends to rank 0 after it has rank 1's message. In rank 0's queue of messages from higher
// ranks, a later message from rank 1 comes first. Within one run the order is free.
TEST(NcclCommunicatorTest, MessagesOfARunDoNotWaitForEachOther) {
  const Exchange late{1, 0}, early{2, 0}, between{2, 1};
  ExpectToEnd({{{late, early}}, {{between}, {late}}, {{early}, {between}}});
}

// Rank 1 sends to rank 0 after it has received from rank 2, which sends to rank 1 after its second
// message to rank 0.
TEST(NcclCommunicatorTest, SecondMessageWaitsOnlyForEarlierOnes) {
  const Exchange twice{2, 0}, between{2, 1}, late{1, 0};
  ExpectToEnd({{{twice, twice, late}}, {{between}, {late}}, {{twice}, {twice}, {between}}});
}

// The tensors of one message do not wait for another message either: all types, some empty.
TEST(NcclCommunicatorTest, TensorsOfAMessageGoTogether) {
  const TensorSpec wide{{3, 5}, DType::kF32}, half{{7}, DType::kBf16}, empty{{0, 2}, DType::kF32};
  for (const std::vector<TensorSpec>& specs : std::vector<std::vector<TensorSpec>>{
           {wide, wide, empty, wide}, {wide, half, empty}, {half, half}, {empty, wide}, {empty}}) {
    const Exchange late{1, 0, specs}, early{2, 0, specs}, between{2, 1, specs};
    ExpectToEnd({{{late, early}}, {{between}, {late}}, {{early}, {between}}});
  }
}

// Sent and received tensors are freed in the order of the GPU's work: an allocation finds the
// memory without polling for completed work.
TEST(NcclCommunicatorTest, TensorsAreFreedWhenTheGpuIsDone) {
  constexpr int64_t kCount = 1 << 18;
  NcclJob job(2);
  std::atomic<int64_t> most_bytes{0};
  ExpectAllOk(job.Run([&](Communicator& comm, const auto& device) -> absl::Status {
    for (int i = 0; i < 50; ++i) {
      if (comm.rank() == Rank(0)) {
        const Tensor t = Tensor::Zeros(device, {kCount}, DType::kF32);
        DPIPE_RETURN_IF_ERROR(comm.Send(Rank(1), 0, {t}, "activation"));
      } else {
        DPIPE_ASSIGN_OR_RETURN(auto recv,
                               comm.PostRecv(Rank(0), 0, {{{kCount}, DType::kF32}}, "activation"));
        DPIPE_RETURN_IF_ERROR(recv->Wait().status());
      }
      DPIPE_RETURN_IF_ERROR(device->Synchronize());
      double one = 1;
      DPIPE_RETURN_IF_ERROR(comm.AllReduceSum(absl::MakeSpan(&one, 1), "count"));
      if (comm.rank() == Rank(0)) most_bytes = std::max(most_bytes.load(), job.live_bytes());
    }
    return absl::OkStatus();
  }));
  EXPECT_LE(most_bytes, 4 * kCount * 4);
}

// There is memory for two of three tensors, and the first of them is still being sent.
TEST(NcclCommunicatorTest, AllocationWaitsForSends) {
  constexpr int64_t kCount = 1 << 20, kBytes = kCount * 4;
  NcclJob job(2);
  job.set_memory_limit(5 * kBytes / 2);
  ExpectAllOk(job.Run([&](Communicator& comm, const auto& device) -> absl::Status {
    if (comm.rank() == Rank(1)) {
      DPIPE_ASSIGN_OR_RETURN(const auto recv,
                             comm.PostRecv(Rank(0), 0, {{{kCount}, DType::kF32}}, "activation"));
      DPIPE_RETURN_IF_ERROR(recv->Wait().status());
      return device->Synchronize();
    }
    // This is the first message, so rank 1 has allocated its buffer when it returns.
    DPIPE_RETURN_IF_ERROR(
        comm.Send(Rank(1), 0, {Tensor::Zeros(device, {kCount}, DType::kF32)}, "activation"));
    Tensor::Zeros(device, {kCount}, DType::kF32);
    return device->Synchronize();
  }));
}

// A reduction's workspace holds two chunks' shares, for any number of chunks.
TEST(NcclCommunicatorTest, ChunksShareTheWorkspace) {
  constexpr int64_t kCount = int64_t{12} << 20;  // 48 MiB
  NcclJob job(2);
  std::atomic<int64_t> most_bytes{0};
  ExpectAllOk(job.Run([&](Communicator& comm, const auto& device) -> absl::Status {
    std::vector<Tensor> tensors;
    for (int i = 0; i < 4; ++i) {
      tensors.push_back(Tensor::Zeros(device, {kCount}, DType::kF32));
    }
    DPIPE_ASSIGN_OR_RETURN(
        const auto pending,
        comm.StartAllReduceSum(std::vector<Rank>{Rank(0), Rank(1)}, tensors, "gradients"));
    if (comm.rank() == Rank(0)) most_bytes = job.live_bytes();
    DPIPE_RETURN_IF_ERROR(pending->Wait());
    return device->Synchronize();
  }));
  const int64_t gradients_bytes = 2 * 4 * kCount * 4;
  const int64_t room_bytes =
      2 * ReductionBufferFor({1, 2}, false, 4 * kCount * 4, ReductionChunkBytes(1)).size_bytes();
  EXPECT_LE(room_bytes, 2 * (int64_t{32} << 20) + 4096);
  EXPECT_LE(most_bytes, gradients_bytes + room_bytes + 4096);
  EXPECT_GE(job.live_bytes(), room_bytes);  // the communicators keep it
}

TEST(NcclCommunicatorTest, SumsAreInRankOrderWithEqualBits) {
  constexpr int kSize = 4, kCount = 1001;
  const auto value = [](int rank, int i) {
    return RandomStream(1, i, rank, RandomPurpose::kTest).NextNormal();
  };
  NcclJob job(kSize);
  ExpectAllOk(job.Run([&](Communicator& comm, const auto& device) -> absl::Status {
    // Ranks 1 and 3, then all; odd sizes, and one tensor smaller than the group.
    const std::vector<std::vector<Rank>> groups = {{Rank(1), Rank(3)},
                                                   {Rank(0), Rank(1), Rank(2), Rank(3)}};
    for (const auto& group : groups) {
      if (std::find(group.begin(), group.end(), comm.rank()) == group.end()) continue;
      std::vector<float> mine(kCount), expected(kCount);
      for (int i = 0; i < kCount; ++i) {
        mine[i] = value(comm.rank().value(), i);
        expected[i] = value(group[0].value(), i);
        for (size_t r = 1; r < group.size(); ++r) expected[i] += value(group[r].value(), i);
      }
      std::vector<Tensor> tensors = {Vector(device, mine), Vector(device, {mine[0], mine[1]})};
      DPIPE_RETURN_IF_ERROR(comm.AllReduceSum(group, absl::MakeSpan(tensors), "gradients"));
      EXPECT_EQ(HostValues(tensors[0]), expected);
      EXPECT_EQ(HostValues(tensors[1]), (std::vector<float>{expected[0], expected[1]}));

      int index = 0;
      while (group[index] != comm.rank()) ++index;
      const Shard own{index, static_cast<int>(group.size())};
      const int64_t begin = own.Begin(kCount), end = own.End(kCount);
      const std::vector<Tensor> full = {Vector(device, mine)};
      std::vector<Tensor> shards = {Vector(device, std::vector<float>(end - begin, 0.0f))};
      DPIPE_RETURN_IF_ERROR(
          comm.ReduceScatterSum(group, full, absl::MakeSpan(shards), "gradients"));
      EXPECT_EQ(HostValues(shards[0]),
                std::vector<float>(expected.begin() + begin, expected.begin() + end));
      EXPECT_EQ(HostValues(full[0]), mine);

      std::vector<Tensor> gathered = {Vector(device, std::vector<float>(kCount))};
      DPIPE_RETURN_IF_ERROR(comm.AllGather(group, shards, absl::MakeSpan(gathered), "parameters"));
      EXPECT_EQ(HostValues(gathered[0]), expected);
    }
    double sums[2] = {comm.rank().value() + 0.1, 0.5};
    DPIPE_RETURN_IF_ERROR(comm.AllReduceSum(absl::MakeSpan(sums), "norm"));
    EXPECT_EQ(sums[0], ((0.1 + 1.1) + 2.1) + 3.1);
    EXPECT_EQ(sums[1], 2.0);
    return absl::OkStatus();
  }));
}

TEST(NcclCommunicatorTest, MissingMessageEndsAllRanks) {
  NcclJob job(3, absl::Milliseconds(200));
  const auto statuses = job.Run([](Communicator& comm, const auto& device) -> absl::Status {
    if (comm.rank() == Rank(2)) return absl::OkStatus();  // forgets to send
    const bool waits = comm.rank() == Rank(1);
    DPIPE_ASSIGN_OR_RETURN(auto recv, comm.PostRecv(Rank(waits ? 2 : 1), 0, {{{4}, DType::kF32}},
                                                    "activation of micro-batch 3"));
    DPIPE_ASSIGN_OR_RETURN(const auto tensors, recv->Wait());
    HostValues(tensors[0]);  // the GPU would hang here
    double value = 0;
    return comm.AllReduceSum(absl::MakeSpan(&value, 1), "loss");
  });
  for (int rank : {0, 1}) {
    EXPECT_EQ(statuses[rank].code(), absl::StatusCode::kDeadlineExceeded) << statuses[rank];
    EXPECT_THAT(std::string(statuses[rank].message()),
                AllOf(HasSubstr("waited "), HasSubstr("activation of micro-batch 3 from rank ")));
  }
}

// The rank's thread waits for room in the queue of a stream that waits for rank 1. The deadline
// still ends both waits.
TEST(NcclCommunicatorTest, DeadlineHoldsIfTheGpuQueueIsFull) {
  NcclJob job(2, absl::Milliseconds(500));
  const std::vector<Rank> both = {Rank(0), Rank(1)};
  job.set_queue_limit(202);  // for the messages of 200 tensors, but not for their sums as well
  const auto statuses = job.Run([&](Communicator& comm, const auto& device) -> absl::Status {
    std::vector<Tensor> first = {Vector(device, std::vector<float>(16, 1))};
    DPIPE_RETURN_IF_ERROR(comm.AllReduceSum(both, absl::MakeSpan(first), "first gradients"));
    DPIPE_RETURN_IF_ERROR(device->Synchronize());
    if (comm.rank() == Rank(1)) return absl::OkStatus();  // has left
    std::vector<Tensor> many;
    for (int i = 0; i < 200; ++i) many.push_back(Vector(device, std::vector<float>(16, 1)));
    return comm.StartAllReduceSum(both, many, "gradients of stage 1").status();
  });
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kDeadlineExceeded) << statuses[0];
  EXPECT_THAT(std::string(statuses[0].message()), HasSubstr("gradients of stage 1"));
}

// Rank 1 does not call, so NCCL has not enqueued the message on the stream when rank 0 aborts. It
// may still do so, and then needs the message's memory.
TEST(NcclCommunicatorTest, UnsettledOperationsKeepMemoryUntilAbort) {
  constexpr int64_t kCount = 1 << 18;
  NcclJob job(2, absl::Milliseconds(200));
  job.Run([&](Communicator& comm, const auto& device) -> absl::Status {
    if (comm.rank() == Rank(1)) return absl::OkStatus();
    const auto recv = comm.PostRecv(Rank(1), 0, {{{kCount}, DType::kF32}}, "activation");
    EXPECT_EQ(recv.status().code(), absl::StatusCode::kDeadlineExceeded) << recv.status();
    EXPECT_GE(job.live_bytes(), kCount * 4);
    comm.Abort(recv.status());
    EXPECT_TRUE(absl::IsDeadlineExceeded(device->Synchronize()));
    EXPECT_LT(job.live_bytes(), kCount * 4);
    return absl::OkStatus();
  });
}

// A sender completes before the receiver has read its buffers.
TEST(NcclCommunicatorTest, LeavesOnlyAfterMessagesAreRead) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    NcclJob job(3, absl::Seconds(60), seed);
    ExpectAllOk(job.Run([](Communicator& comm, const auto& device) -> absl::Status {
      if (comm.rank() == Rank(0)) {
        for (const Rank to : {Rank(1), Rank(2)}) {
          DPIPE_RETURN_IF_ERROR(comm.Send(to, 0, {Vector(device, {1, 2})}, "activation"));
        }
        return absl::OkStatus();
      }
      DPIPE_ASSIGN_OR_RETURN(const auto recv,
                             comm.PostRecv(Rank(0), 0, {{{2}, DType::kF32}}, "activation"));
      return recv->Wait().status();
    }));
    job.Disconnect();
    EXPECT_EQ(job.nccl().num_unread(), 0) << seed;
  }
}

TEST(NcclCommunicatorTest, NcclErrorReachesAllRanks) {
  NcclJob job(2);
  const auto statuses = job.Run([&](Communicator& comm, const auto& device) -> absl::Status {
    if (comm.rank() == Rank(1)) job.nccl().Break(1, ncclRemoteError);
    std::vector<Tensor> tensors = {Vector(device, {1, 2, 3})};
    const Rank peer(1 - comm.rank().value());
    DPIPE_ASSIGN_OR_RETURN(auto recv,
                           comm.PostRecv(peer, 0, {{{3}, DType::kF32}}, "gradient of stage 1"));
    DPIPE_ASSIGN_OR_RETURN(const auto received, recv->Wait());
    HostValues(received[0]);
    double value = 0;
    return comm.AllReduceSum(absl::MakeSpan(&value, 1), "loss");
  });
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(std::string(status.message()), HasSubstr("remote process exited"));
  }
}

// At any point of rank 1's execution.
TEST(NcclCommunicatorTest, AbortEndsEveryWait) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    NcclJob job(2, absl::Seconds(60), seed);
    const auto statuses = job.Run([](Communicator& comm, const auto& device) -> absl::Status {
      if (comm.rank() == Rank(0)) {
        comm.Abort(absl::InternalError("rank 0 ran out of disk"));
        return absl::OkStatus();
      }
      DPIPE_ASSIGN_OR_RETURN(auto recv,
                             comm.PostRecv(Rank(0), 0, {{{1}, DType::kF32}}, "activation"));
      DPIPE_RETURN_IF_ERROR(recv->Wait().status());
      return device->Synchronize();
    });
    EXPECT_THAT(std::string(statuses[1].message()),
                AllOf(HasSubstr("rank 1 waited "),
                      EndsWith(" for activation from rank 0: rank 0 ran out of disk")));
  }
}

// On one communicator the GPU waits for rank 2. Work of another one comes after that in the
// device's order, so aborting it waits for the first, which must be aborted at the same time.
TEST(NcclCommunicatorTest, MutuallyWaitingCommunicatorsAreAborted) {
  NcclJob job(3);
  absl::Notification waits;
  const auto statuses = job.Run([&](Communicator& comm, const auto& device) -> absl::Status {
    const Exchange up{0, 1}, further{1, 2}, down{2, 1};
    DPIPE_RETURN_IF_ERROR(RunMessages(comm, device, {{up, further, down}}));
    if (comm.rank() == Rank(2)) return absl::OkStatus();  // has left
    if (comm.rank() == Rank(0)) {
      waits.WaitForNotification();
      comm.Abort(absl::InternalError("rank 0 ran out of disk"));
      return absl::OkStatus();
    }
    DPIPE_ASSIGN_OR_RETURN(auto recv, comm.PostRecv(Rank(2), 0, {{{1}, DType::kF32}}, "gradient"));
    DPIPE_RETURN_IF_ERROR(recv->Wait().status());
    DPIPE_RETURN_IF_ERROR(comm.Send(Rank(2), 0, {Vector(device, {1})}, "activation"));
    job.LetGpusRun();
    waits.Notify();
    return device->Synchronize();
  });
  EXPECT_THAT(std::string(statuses[1].message()),
              AllOf(HasSubstr("rank 1 waited "),
                    EndsWith(" for gradient from rank 2: rank 0 ran out of disk")));
}

// The rank waited for nothing when the job failed: each call says what it was for.
TEST(NcclCommunicatorTest, CallsAfterAnAbortNameTheirPurpose) {
  NcclJob job(2);
  absl::Notification aborted;
  ExpectAllOk(job.Run([&](Communicator& comm, const auto& device) -> absl::Status {
    const std::vector<Rank> both = {Rank(0), Rank(1)};
    std::vector<Tensor> tensors = {Vector(device, {1})};
    if (comm.rank() == Rank(0)) {
      comm.Abort(absl::InternalError("rank 0 ran out of disk"));
      aborted.Notify();
      return absl::OkStatus();
    }
    aborted.WaitForNotification();
    double value = 0;
    const auto message = [](const absl::Status& status) { return std::string(status.message()); };
    const std::string begin = "rank 1 waited 0 for ", end = ": rank 0 ran out of disk";
    EXPECT_EQ(message(comm.PostRecv(Rank(0), 0, {{{1}, DType::kF32}}, "activation").status()),
              begin + "activation from rank 0" + end);
    EXPECT_EQ(message(comm.Send(Rank(0), 0, tensors, "gradient")),
              begin + "gradient to rank 0" + end);
    EXPECT_EQ(message(comm.AllReduceSum(both, absl::MakeSpan(tensors), "gradients of stage 1")),
              begin + "gradients of stage 1" + end);
    EXPECT_EQ(message(comm.AllReduceSum(absl::MakeSpan(&value, 1), "loss")), begin + "loss" + end);
    return absl::OkStatus();
  }));
}

TEST(NcclCommunicatorTest, ErrorNamesTheMessageAwaitedInItsOwnRun) {
  NcclJob job(2);
  ExpectAllOk(job.Run([](Communicator& comm, const auto& device) -> absl::Status {
    const Rank peer(1 - comm.rank().value());
    comm.BeginMessages();
    DPIPE_ASSIGN_OR_RETURN(auto recv, comm.PostRecv(peer, 0, {{{1}, DType::kF32}}, "activation"));
    EXPECT_EQ(recv->Wait().status(), absl::FailedPreconditionError(absl::StrCat(
                                         "rank ", comm.rank().value(),
                                         " has not posted activation from rank ", peer.value())));
    DPIPE_RETURN_IF_ERROR(comm.Send(peer, 0, {Vector(device, {1})}, "activation"));
    DPIPE_RETURN_IF_ERROR(comm.EndMessages());
    return recv->Wait().status();
  }));
}

TEST(NcclCommunicatorTest, WrongPeersAndVirtualGpusAreRejected) {
  {
    NcclJob job(2);
    const auto statuses = job.Run([](Communicator& comm, const auto& device) {
      return comm.Send(Rank(2), 0, {Vector(device, {1})}, "activation");
    });
    EXPECT_EQ(statuses[0].message(), "rank 0 has no peer 2 for activation; there are 2 ranks");
  }
  cuda::FakeDriver driver;
  FakeNccl nccl(&driver);
  const auto devices = *cuda::CreateVirtualCudaDevices(&driver, 2);
  const auto refused = CreateLocalNcclCommunicators(nccl.api(), devices, absl::Seconds(1));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("cuda:0/0 of 2 is a virtual GPU"));
}

TEST(NcclCommunicatorTest, StreamsThatShareGpuQueuesAreRejected) {
  cuda::FakeDriver driver;
  driver.SetNumGpus(2);
  FakeNccl nccl(&driver);
  const auto devices = *cuda::CreateCudaDevices(&driver, 2);
  const auto connect = [&](const char* queues) {
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", queues, 1);
    return CreateLocalNcclCommunicators(nccl.api(), devices, absl::Seconds(60)).status();
  };
  EXPECT_EQ(connect("1"), absl::FailedPreconditionError(
                              "CUDA_DEVICE_MAX_CONNECTIONS is 1, which makes streams block each "
                              "other; set it to 8 or more, or unset it"));
  for (const char* queues : {"8", "32"}) EXPECT_TRUE(connect(queues).ok());
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
}

}  // namespace
}  // namespace dpipe
