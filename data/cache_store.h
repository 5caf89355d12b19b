// A key-value store for results that are worth keeping between runs: latents and text embeddings,
// each computed once.
//
// The store is a folder of shards. Each is written under a temporary name, flushed and then linked
// to its final name, so it is complete or absent. A shard consists of the 8 bytes "DPCACHE1" and
// records:
//   u32 crc32c of all that follows | u32 key bytes | u64 value bytes | key | value,
// little endian, each record starting at a multiple of 64 bytes. Shards are memory-mapped, so the
// system decides how much of them is in memory.
//
// The key contains everything that the value depends on, so nothing is ever changed in place.
// Another model or a changed image has other keys, and the old records are simply never requested.
// To free their space, delete the folder: everything in it can be computed again. A record with a
// wrong checksum counts as absent.
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
#include "core/base/files/durable_file.h"
#include "core/base/status.h"

namespace dpipe {

struct CacheStoreOptions {
  int64_t shard_bytes = 256 * kMiB;  // a larger shard is closed
};

// Thread-safe. Several processes may use one folder, because each writes its own shards.
class CacheStore {
 public:
  // Creates the folder if it is missing. Damaged or truncated shards are used up to the damage, and
  // counted. Returns InvalidArgument if the folder has other files, and Unavailable if it cannot be
  // read or created.
  static absl::StatusOr<std::unique_ptr<CacheStore>> Open(const std::string& folder,
                                                          const CacheStoreOptions& options = {});
  // Discards values that were not committed.
  ~CacheStore();

  // Returns the value, valid while the store exists, or nullopt if there is no undamaged one. Added
  // values are found after they are committed. Reads the whole value to verify its checksum.
  std::optional<absl::string_view> Find(const std::string& key) const;

  // Adds a value for a key that was not found. Errors name the file; IsDiskFull if the disk is
  // full.
  absl::Status Add(const std::string& key, absl::string_view value);

  // Blocks until all added values are on the disk. Find then returns them.
  absl::Status Commit();

  int64_t num_entries() const;
  // The number of damaged records and shards found so far.
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
  // Links the temporary file to the first unused name.
  absl::StatusOr<std::string> Publish(const std::string& temporary);

  const std::string folder_;
  const CacheStoreOptions options_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::unordered_map<std::string, Place> places_;
  mutable int64_t num_damaged_ = 0;
  std::unique_ptr<DurableFile> writing_;  // null if no shard is open
  std::string temporary_;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_CACHE_STORE_H_
