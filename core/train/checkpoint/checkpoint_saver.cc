#include "core/train/checkpoint/checkpoint_saver.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/count.h"
#include "core/base/files/open_file.h"
#include "core/comm/rendezvous/launch/process_exit.h"

namespace dpipe {
namespace {

// A piece of a few MB of a tensor, so that several threads share big tensors, too.
struct CopyPiece {
  char* to;
  Device* device;
  const char* from;  // on the device
  size_t bytes;
};

std::vector<CopyPiece> Pieces(const SessionState& from, const SessionState& to) {
  constexpr size_t kPieceBytes = size_t{4} << 20;
  std::vector<CopyPiece> pieces;
  for (size_t i = 0; i < from.tensors.size(); ++i) {
    if (from.tensors[i].is_private) continue;
    const auto* source = static_cast<const char*>(from.tensors[i].part.raw_data());
    auto* target = static_cast<char*>(to.tensors[i].part.raw_data());
    const size_t size = from.tensors[i].part.size_bytes();
    for (size_t at = 0; at < size; at += kPieceBytes) {
      pieces.push_back({target + at, from.tensors[i].part.device().get(), source + at,
                        std::min(kPieceBytes, size - at)});
    }
  }
  return pieces;
}

}  // namespace

SessionState CopyState(const SessionState& state, int num_threads) {
  // A separate device, to exclude the copy from the ranks' memory statistics.
  const std::shared_ptr<Device> device = Device::Cpu();
  SessionState copy = state;
  for (StateTensor& tensor : copy.tensors) {
    if (tensor.is_private) continue;
    tensor.part = Tensor::Empty(device, tensor.part.shape(), tensor.part.dtype());
  }
  const std::vector<CopyPiece> pieces = Pieces(state, copy);
  const auto copy_every = [&pieces](size_t first, size_t stride) {
    for (size_t i = first; i < pieces.size(); i += stride) {
      pieces[i].device->CopyToHost(pieces[i].to, pieces[i].from, pieces[i].bytes);
    }
  };
  std::vector<std::thread> threads;
  const size_t count =
      std::min<size_t>(std::max(1, num_threads), std::max<size_t>(1, pieces.size()));
  for (size_t i = 1; i < count; ++i) threads.emplace_back(copy_every, i, count);
  copy_every(0, count);
  for (std::thread& thread : threads) thread.join();
  return copy;
}

CheckpointSaver::~CheckpointSaver() {
  if (thread_.joinable()) thread_.join();
}

absl::Status CheckpointSaver::Write(const CheckpointContent& content) {
  const ExitHold hold;
  const Nanos start = MonotonicNow();
  auto bytes = folder_->Write(content);
  if (IsDiskFull(bytes.status()) && MakeRoom(content.info.step, bytes.status())) {
    bytes = folder_->Write(content);
  }
  DPIPE_ASSIGN_OR_RETURN(stats_.bytes, std::move(bytes));
  stats_.last_write_ns = MonotonicNow() - start;
  stats_.last_step = content.info.step;
  ++stats_.num_saved;
  return folder_->RemoveOld(content.info.step, options_.retention);
}

// Removes old checkpoints: a disk may have room for those to keep, but not for one more.
bool CheckpointSaver::MakeRoom(int64_t step, const absl::Status& full) {
  const auto removed = folder_->RemoveAllButNewest(step, options_.retention);
  if (!removed.ok() || *removed == 0) return false;
  notes_.push_back(absl::StrCat(full.message(), "; removed ", Count(*removed, "older checkpoint"),
                                " to make room, so fewer than "
                                "--checkpoints.keep_last remain"));
  return true;
}

absl::Status CheckpointSaver::Save(CheckpointContent content) {
  absl::Status status = Wait();
  const Nanos start = MonotonicNow();
  if (options_.in_background) {
    content.state = CopyState(content.state, options_.copy_threads);
    thread_ = std::thread([this, content = std::move(content)] {
      // On Linux the priority of "process" <thread id> is that of the thread. A refusal does no
      // harm.
      setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 19);
      status_ = Write(content);
    });
  } else {
    status.Update(Write(content));
  }
  stats_.total_stall_ns += MonotonicNow() - start;
  return status;
}

absl::Status CheckpointSaver::Wait() {
  const Nanos start = MonotonicNow();
  if (thread_.joinable()) thread_.join();
  stats_.total_stall_ns += MonotonicNow() - start;
  return std::exchange(status_, absl::OkStatus());
}

std::vector<std::string> CheckpointSaver::TakeNotes() { return std::exchange(notes_, {}); }

}  // namespace dpipe
