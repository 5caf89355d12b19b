#include "bench/transports/lossy_communicator.h"

#include <string>
#include <utility>
#include <vector>

#include "tests/testlib/forwarding_communicator.h"

namespace dpipe::bench {
namespace {

void LoseIn(Tensor* tensor) {
  Tensor host = tensor->ToHost().Clone();
  host.data<float>()[tensor->num_elements() - 1] += 1;
  tensor->CopyFrom(host);
}

class Lossy : public testlib::ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;

  absl::Status Send(Rank to, int64_t tag, std::vector<Tensor> tensors,
                    const std::string& what) override {
    Tensor wrong = tensors[0].Clone();
    LoseIn(&wrong);
    return ForwardingCommunicator::Send(to, tag, {wrong}, what);
  }
  StartedCollective StartAllReduceSum(absl::Span<const Rank> group, std::vector<Tensor> tensors,
                                      const std::string& what) override {
    LoseIn(&tensors[0]);
    return ForwardingCommunicator::StartAllReduceSum(group, std::move(tensors), what);
  }
  StartedCollective StartAllGather(absl::Span<const Rank> group, std::vector<Tensor> shards,
                                   std::vector<Tensor> full, const std::string& what) override {
    LoseIn(&shards[0]);
    return ForwardingCommunicator::StartAllGather(group, std::move(shards), std::move(full), what);
  }
  StartedCollective StartReduceScatterSum(absl::Span<const Rank> group, std::vector<Tensor> full,
                                          std::vector<Tensor> shards,
                                          const std::string& what) override {
    LoseIn(&shards[0]);
    return ForwardingCommunicator::StartReduceScatterSum(group, std::move(full), std::move(shards),
                                                         what);
  }
};

}  // namespace

std::unique_ptr<Communicator> MakeLossy(std::unique_ptr<Communicator> inner) {
  return std::make_unique<Lossy>(std::move(inner));
}

}  // namespace dpipe::bench
