// Results worth keeping between runs, by key: latents and text embeddings, computed once.
//
// A folder of shards, each written under a temporary name, flushed and then linked to its own, so
// that it is complete or not there. A shard is the 8 bytes "DPCACHE1" and records:
//   u32 crc32c of all that follows | u32 key bytes | u64 value bytes | key | value,
// little endian, each record starting at a multiple of 64 bytes. Shards are mapped, not read: what
// is in memory is the system's choice.
//
// The key says all that the value depends on, so nothing is ever changed in place: with another
// model or a changed image there are other keys, and what the old ones hold is merely never asked
// for. To be rid of it, delete the folder: all of it can be computed again. A record whose checksum
// is wrong is as good as absent.
#ifndef DPIPE_DATA_CACHE_STORE_H_
#define DPIPE_DATA_CACHE_STORE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/bytes.h"
#include "core/base/durable_file.h"
#include "core/base/status.h"

namespace dpipe {

struct CacheStoreOptions {
  int64_t shard_bytes = 256 * kMiB;  // a shard is closed when it has more
};

// Thread-safe. Several processes may use one folder: each writes shards of its own.
class CacheStore {
 public:
  // Makes the folder if it is not there. Shards that are no shards, or end early, are used as far
  // as they go, and counted. InvalidArgument for a folder that has other files, Unavailable if it
  // cannot be read or made.
  static absl::StatusOr<std::unique_ptr<CacheStore>> Open(const std::string& folder,
                                                          const CacheStoreOptions& options = {});
  // What was not committed is lost.
  ~CacheStore();

  // The value, valid while the store lives; nothing if there is none that is sound. Values added
  // are found once they are committed. Reads all of the value, for its checksum.
  std::optional<absl::string_view> Find(const std::string& key) const;

  // For a key that was not found. Errors name the file; IsDiskFull on a full disk.
  absl::Status Add(const std::string& key, absl::string_view value);

  // Returns when all that was added is on the disk, and can be found.
  absl::Status Commit();

  int64_t num_entries() const;
  // Records that were there and not sound, as far as they were met.
  int64_t num_damaged() const;

 private:
  struct Shard;
  struct Place {
    const char* record;
    int64_t size;
  };

  CacheStore(std::string folder, const CacheStoreOptions& options);
  absl::Status MapShard(const std::string& path);
  void IndexShard(const Shard& shard);
  absl::Status AppendLocked(absl::string_view head, absl::string_view value);
  absl::Status CommitLocked();
  // Links the temporary file to the first name that is free.
  absl::StatusOr<std::string> Publish(const std::string& temporary);

  const std::string folder_;
  const CacheStoreOptions options_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::unordered_map<std::string, Place> places_;
  mutable int64_t num_damaged_ = 0;
  std::unique_ptr<DurableFile> writing_;  // null: no shard is open
  std::string temporary_;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_CACHE_STORE_H_
