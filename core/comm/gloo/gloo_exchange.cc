#include "core/comm/gloo/gloo_exchange.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/comm/gloo/gloo_mesh.h"
#include "core/tensor/add_up.h"

namespace dpipe {

GlooOutbox::GlooOutbox(GlooMesh* mesh) : mesh_(mesh) {
  thread_ = std::thread([this] { Loop(); });
}

// The deadline is divided into pieces, so that only time in which this process runs counts.
GlooOutbox::~GlooOutbox() {
  constexpr int kPieces = 32;
  std::optional<std::string> left;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    auto empty = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return parcels_.empty(); };
    for (int passed = 0; passed < kPieces && !empty(); ++passed) {
      mutex_.AwaitWithTimeout(absl::Condition(&empty), mesh_->deadline() / kPieces);
    }
    if (!parcels_.empty()) left = parcels_.front()->what;
  }
  if (left.has_value()) {
    mesh_->Abort(absl::DeadlineExceededError(absl::StrCat(
        "rank ", mesh_->rank(), " is shutting down, but ", *left, " was never received")));
  }
  thread_.join();
}

void GlooOutbox::Add(std::unique_ptr<Parcel> parcel) {
  absl::MutexLock lock(&mutex_);
  parcels_.push_back(std::move(parcel));
}

// A parcel stays in the queue until it is taken. That may take long, because a message may be sent
// long before its receiver needs it. After a failure, waits return at once.
void GlooOutbox::Loop() {
  while (true) {
    Parcel* next = nullptr;
    {
      absl::MutexLock lock(&mutex_);
      auto wake = [this]()
                      ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopping_ || !parcels_.empty(); };
      mutex_.Await(absl::Condition(&wake));
      if (parcels_.empty()) return;
      next = parcels_.front().get();
    }
    for (auto& transfer : next->transfers) {
      mesh_->Wait(transfer.get(), next->what, /*forever=*/true).IgnoreError();
    }
    std::unique_ptr<Parcel> taken;
    absl::MutexLock lock(&mutex_);
    taken = std::move(parcels_.front());
    parcels_.pop_front();
  }
}

namespace {

// Tensors are batched up to this total size, which bounds the size of the copies.
constexpr int64_t kBatchElements = 4 << 20;

// Distinguishes the transfers within a group.
enum Phase { kScatter = 1, kShare, kGather, kValues, kEnd };

using Parts = std::vector<absl::Span<char>>;

absl::Span<char> Bytes(float* data, int64_t count) {
  return absl::MakeSpan(reinterpret_cast<char*>(data), count * sizeof(float));
}

// Calls `run` for each range [begin, end) of tensors that form a batch.
absl::Status ForBatches(absl::Span<const Tensor> tensors,
                        const std::function<absl::Status(size_t begin, size_t end)>& run) {
  size_t begin = 0;
  while (begin < tensors.size()) {
    size_t end = begin + 1;
    int64_t elements = tensors[begin].num_elements();
    while (end < tensors.size() && elements + tensors[end].num_elements() <= kBatchElements) {
      elements += tensors[end++].num_elements();
    }
    DPIPE_RETURN_IF_ERROR(run(begin, end));
    begin = end;
  }
  return absl::OkStatus();
}

int64_t ShardSize(absl::Span<const Tensor> full, Shard shard) {
  int64_t size = 0;
  for (const Tensor& t : full) size += shard.Size(t.num_elements());
  return size;
}

// Copies one shard of every tensor from `full` to a contiguous row; Unpack copies it back.
void Pack(absl::Span<const Tensor> full, Shard shard, float* row) {
  for (const Tensor& t : full) {
    const int64_t n = t.num_elements();
    row = std::copy(t.data<float>() + shard.Begin(n), t.data<float>() + shard.End(n), row);
  }
}

void Unpack(const float* row, Shard shard, absl::Span<const Tensor> full) {
  for (const Tensor& t : full) {
    const int64_t n = t.num_elements(), size = shard.Size(n);
    std::copy_n(row, size, t.data<float>() + shard.Begin(n));
    row += size;
  }
}

}  // namespace

// Receives are posted first, because a sender waits until its message's receive is posted.
absl::Status GlooExchange::Exchange(const RankGroup& group, int phase,
                                    absl::Span<const absl::Span<char>> out,
                                    absl::Span<const absl::Span<char>> in,
                                    const std::string& what) {
  uint64_t ranks = 0;
  for (int rank : group.ranks) ranks = GlooSlot({ranks, static_cast<uint64_t>(rank)});
  const auto slot = [&](size_t bytes) {
    return GlooSlot({1, ranks, static_cast<uint64_t>(phase), bytes});
  };
  std::vector<std::unique_ptr<GlooTransfer>> receiving, sending;
  for (int j = 0; j < group.size(); ++j) {
    if (j == group.own.index || in[j].empty()) continue;
    DPIPE_ASSIGN_OR_RETURN(
        receiving.emplace_back(),
        mesh_->Receive(group.ranks[j], slot(in[j].size()), in[j].data(), in[j].size()));
  }
  // Every rank begins with a different peer; otherwise all would send to the first one.
  for (int k = 1; k < group.size(); ++k) {
    const int j = (group.own.index + k) % group.size();
    if (out[j].empty()) continue;
    DPIPE_ASSIGN_OR_RETURN(sending.emplace_back(), mesh_->Send(group.ranks[j], slot(out[j].size()),
                                                               out[j].data(), out[j].size()));
  }
  for (auto& transfer : receiving) DPIPE_RETURN_IF_ERROR(mesh_->Wait(transfer.get(), what));
  for (auto& transfer : sending) DPIPE_RETURN_IF_ERROR(mesh_->Wait(transfer.get(), what));
  return absl::OkStatus();
}

// Leaves this rank's shard of the sums at its position in packed_, and this rank's own unsummed
// elements at the other positions.
absl::Status GlooExchange::SumShards(const RankGroup& group, absl::Span<const Tensor> full,
                                     const std::string& what) {
  const int n = group.size();
  const int64_t own_size = ShardSize(full, group.own);
  int64_t total = 0;
  for (const Tensor& t : full) total += t.num_elements();
  packed_.resize(total);
  received_.resize(own_size * n);
  Parts out, in;
  float* row = packed_.data();
  float* own = nullptr;
  for (int j = 0; j < n; ++j) {
    const Shard shard{j, n};
    const int64_t size = ShardSize(full, shard);
    Pack(full, shard, row);
    if (j == group.own.index) own = row;
    out.push_back(Bytes(row, size));
    in.push_back(Bytes(received_.data() + j * own_size, own_size));
    row += size;
  }
  DPIPE_RETURN_IF_ERROR(Exchange(group, kScatter, out, in, what));
  OrderedSum sum = {own, {}, own_size};
  for (int j = 0; j < n; ++j) {
    sum.terms.push_back(j == group.own.index ? own : received_.data() + j * own_size);
  }
  AddUp(sum);
  return absl::OkStatus();
}

// Does the second half of an all-reduce, after SumShards.
absl::Status GlooExchange::ShareSums(const RankGroup& group, absl::Span<const Tensor> full,
                                     const std::string& what) {
  Parts rows;
  float* row = packed_.data();
  for (int j = 0; j < group.size(); ++j) {
    const int64_t size = ShardSize(full, {j, group.size()});
    rows.push_back(Bytes(row, size));
    row += size;
  }
  const Parts out(group.size(), rows[group.own.index]);
  DPIPE_RETURN_IF_ERROR(Exchange(group, kShare, out, rows, what));
  row = packed_.data();
  for (int j = 0; j < group.size(); ++j) {
    const Shard shard{j, group.size()};
    Unpack(row, shard, full);
    row += ShardSize(full, shard);
  }
  return absl::OkStatus();
}

absl::Status GlooExchange::AllReduceSum(const RankGroup& group, absl::Span<const Tensor> tensors,
                                        const std::string& what) {
  if (group.size() == 1) return absl::OkStatus();
  return ForBatches(tensors, [&](size_t begin, size_t end) -> absl::Status {
    const auto batch = tensors.subspan(begin, end - begin);
    DPIPE_RETURN_IF_ERROR(SumShards(group, batch, what));
    return ShareSums(group, batch, what);
  });
}

absl::Status GlooExchange::AllGather(const RankGroup& group, absl::Span<const Tensor> shards,
                                     absl::Span<const Tensor> full, const std::string& what) {
  return ForBatches(full, [&](size_t begin, size_t end) -> absl::Status {
    const auto batch = full.subspan(begin, end - begin);
    int64_t total = 0;
    for (const Tensor& t : batch) total += t.num_elements();
    packed_.resize(total);
    Parts rows;
    float* row = packed_.data();
    for (int j = 0; j < group.size(); ++j) {
      const int64_t size = ShardSize(batch, {j, group.size()});
      rows.push_back(Bytes(row, size));
      row += size;
    }
    float* own = reinterpret_cast<float*>(rows[group.own.index].data());
    for (size_t i = begin; i < end; ++i) {
      const absl::Span<const float> shard = shards[i].span<float>();
      DPIPE_CHECK_EQ(static_cast<int64_t>(shard.size()), group.own.Size(full[i].num_elements()))
          << what << ", tensor " << i;
      own = std::copy(shard.begin(), shard.end(), own);
    }
    const Parts out(group.size(), rows[group.own.index]);
    DPIPE_RETURN_IF_ERROR(Exchange(group, kGather, out, rows, what));
    for (int j = 0; j < group.size(); ++j) {
      Unpack(reinterpret_cast<const float*>(rows[j].data()), {j, group.size()}, batch);
    }
    return absl::OkStatus();
  });
}

absl::Status GlooExchange::ReduceScatterSum(const RankGroup& group, absl::Span<const Tensor> full,
                                            absl::Span<const Tensor> shards,
                                            const std::string& what) {
  return ForBatches(full, [&](size_t begin, size_t end) -> absl::Status {
    const auto batch = full.subspan(begin, end - begin);
    DPIPE_RETURN_IF_ERROR(SumShards(group, batch, what));
    const float* sum = packed_.data();
    for (int j = 0; j < group.own.index; ++j) sum += ShardSize(batch, {j, group.size()});
    for (size_t i = begin; i < end; ++i) {
      const int64_t size = group.own.Size(full[i].num_elements());
      DPIPE_CHECK_EQ(shards[i].num_elements(), size) << what << ", tensor " << i;
      AddUp({shards[i].data<float>(), {sum}, size, /*adds=*/true});
      sum += size;
    }
    return absl::OkStatus();
  });
}

absl::Status GlooExchange::AllReduceSum(absl::Span<double> values, const std::string& what) {
  return SumOverAll(kValues, values, what);
}

absl::Status GlooExchange::MeetAtEnd() {
  double nothing = 0;
  return SumOverAll(kEnd, absl::MakeSpan(&nothing, 1), "the end of the job");
}

absl::Status GlooExchange::SumOverAll(int phase, absl::Span<double> values,
                                      const std::string& what) {
  const int n = mesh_->size();
  RankGroup all;
  all.own = {mesh_->rank(), n};
  for (int i = 0; i < n; ++i) all.ranks.push_back(i);
  std::vector<double> received(values.size() * n);
  Parts in;
  for (int i = 0; i < n; ++i) {
    double* row = received.data() + i * values.size();
    in.push_back(absl::MakeSpan(reinterpret_cast<char*>(row), values.size() * sizeof(double)));
  }
  std::copy(values.begin(), values.end(), received.begin() + mesh_->rank() * values.size());
  const Parts out(n, in[mesh_->rank()]);
  DPIPE_RETURN_IF_ERROR(Exchange(all, phase, out, in, what));
  for (size_t k = 0; k < values.size(); ++k) {
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += received[i * values.size() + k];
    values[k] = sum;
  }
  return absl::OkStatus();
}

}  // namespace dpipe
