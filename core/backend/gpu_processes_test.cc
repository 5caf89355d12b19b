// Two processes with one GPU each, over NCCL itself. Skipped if there are fewer than two GPUs.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/backend/choose_devices.h"
#include "core/backend/connect_ranks.h"
#include "core/comm/rendezvous/process_group.h"
#include "core/comm/rendezvous/testing/local_job.h"
#include "core/tensor/cuda/system_driver.h"
#include "core/tensor/device_worker.h"
#include "core/tensor/tensor.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

constexpr int kSkipped = 77;

absl::Status Expect(const Tensor& tensor, const std::vector<float>& expected, const char* what) {
  const Tensor host = tensor.ToHost();
  for (size_t i = 0; i < expected.size(); ++i) {
    if (host.data<float>()[i] == expected[i]) continue;
    return absl::DataLossError(absl::StrCat(what, ", element ", i, " should be ", expected[i],
                                            " but is ", host.data<float>()[i]));
  }
  return absl::OkStatus();
}

std::vector<float> Numbers(int rank) {
  std::vector<float> numbers(1001);
  std::iota(numbers.begin(), numbers.end(), 10000.5f * static_cast<float>(rank + 1));
  return numbers;
}

// Sends messages both ways and sums, on the device's thread.
absl::Status Talk(StoreClient* store, int rank, const std::shared_ptr<Device>& device) {
  JobRank own;
  own.name = "test";
  own.rank = Rank(rank);
  own.size = 2;
  own.device = device;
  DPIPE_ASSIGN_OR_RETURN(const auto communicator, ConnectJobRank(store, own));
  const Rank peer(1 - rank);
  const std::vector<float> mine = Numbers(rank), theirs = Numbers(1 - rank);
  const Tensor tensor = Tensor::FromHost<float>(device, {1001}, absl::MakeConstSpan(mine));
  for (int round = 0; round < 10; ++round) {
    const auto send = [&] { return communicator->Send(peer, round, {tensor}, "numbers"); };
    if (rank == 0) DPIPE_RETURN_IF_ERROR(send());
    DPIPE_ASSIGN_OR_RETURN(auto recv,
                           communicator->PostRecv(peer, round, {{{1001}, DType::kF32}}, "numbers"));
    if (rank == 1) DPIPE_RETURN_IF_ERROR(send());
    DPIPE_ASSIGN_OR_RETURN(const auto tensors, recv->Wait());
    DPIPE_RETURN_IF_ERROR(Expect(tensors[0], theirs, "a message"));
  }
  std::vector<float> sums;
  for (size_t i = 0; i < mine.size(); ++i) sums.push_back(mine[i] + theirs[i]);
  std::vector<Tensor> tensors = {tensor.Clone()};
  const std::vector<Rank> all = {Rank(0), Rank(1)};
  DPIPE_RETURN_IF_ERROR(communicator->AllReduceSum(all, absl::MakeSpan(tensors), "sum"));
  DPIPE_RETURN_IF_ERROR(Expect(tensors[0], sums, "a sum"));
  return device->Synchronize();
}

// Runs one process. NotFound if there are not enough GPUs.
absl::Status BeProcess(const JobMember& member) {
  const auto driver = cuda::SystemDriver();
  if (!driver.ok()) return absl::NotFoundError(driver.status().message());
  DPIPE_ASSIGN_OR_RETURN(const auto gpus, (*driver)->Gpus());
  if (gpus.size() < 2) return absl::NotFoundError("two GPUs are needed, there is one");
  DPIPE_ASSIGN_OR_RETURN(const auto group, ProcessGroup::Join(member.address, member.options));
  DeviceRequest request;
  request.backend = "cuda";
  DPIPE_ASSIGN_OR_RETURN(const ChosenDevices chosen, ChooseDevicesTogether(request, group.get()));
  DeviceWorker worker(chosen.devices[0]);
  worker.Start([&] { return Talk(&group->store(), group->process(), chosen.devices[0]); });
  const absl::Status status = worker.Wait();
  if (!status.ok()) group->store().Fail(status);
  return status;
}

// Ends the calling process and writes the message to the pipe.
[[noreturn]] void EndWith(const absl::Status& status, int pipe_fd) {
  const std::string words(status.message());
  const ssize_t written = write(pipe_fd, words.data(), words.size());
  _exit(status.ok() && written == 0 ? 0 : absl::IsNotFound(status) ? kSkipped : 1);
}

// CUDA does not survive a fork, so this process never touches it.
TEST(GpuProcessesTest, TwoTalkOverNccl) {
  std::vector<std::pair<pid_t, int>> children;  // with the read ends of their pipes
  for (const JobMember& member : LocalJob(2)) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) EndWith(BeProcess(member), ends[1]);
    close(ends[1]);
    children.emplace_back(pid, ends[0]);
  }
  std::string skipped;
  for (const auto& [pid, fd] : children) {
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    char words[4096];
    const ssize_t size = read(fd, words, sizeof(words));
    close(fd);
    const std::string said(words, std::max<ssize_t>(0, size));
    if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped) {
      skipped = said;
    } else {
      EXPECT_EQ(status, 0) << said;
    }
  }
  if (!skipped.empty()) GTEST_SKIP() << skipped;
}

}  // namespace
}  // namespace dpipe
