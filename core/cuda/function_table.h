// Tables of a library's functions, bound when the library is first needed. Calling api.ncclSend is
// like calling ncclSend if the library were linked. Tests fill tables with functions of their own.
//
//   #define DPIPE_FOO_FUNCTIONS(X) X(fooCreate) X(fooRun)
//   struct FooApi { DPIPE_FOO_FUNCTIONS(DPIPE_TABLE_MEMBER) };
//   absl::StatusOr<const FooApi*> LoadFoo();   // in the .cc: DPIPE_TABLE_BIND, LoadTable
#ifndef DPIPE_CORE_CUDA_FUNCTION_TABLE_H_
#define DPIPE_CORE_CUDA_FUNCTION_TABLE_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/base/host/shared_library.h"
#include "core/base/status.h"

// CUDA's headers rename functions by macros (cuMemAlloc to cuMemAlloc_v2). So names are expanded
// before they become members and strings.
#define DPIPE_TABLE_STRING_INNER_(name) #name
#define DPIPE_TABLE_STRING_(name) DPIPE_TABLE_STRING_INNER_(name)

#define DPIPE_TABLE_MEMBER(name) decltype(&::name) name = nullptr;

// For use in functions with variables `library` (SharedLibrary) and `table`.
#define DPIPE_TABLE_BIND(name) \
  DPIPE_RETURN_IF_ERROR(library.Bind(DPIPE_TABLE_STRING_(name), &table.name));

namespace dpipe {

// The toolkit's usual library folder, which may be unknown to the loader.
inline constexpr char kCudaLibraries[] = "/usr/local/cuda/lib64/";

// Returns the names under which to open `file`: first by the loader's search path, then in
// kCudaLibraries.
inline std::vector<std::string> CudaLibraryNames(const std::string& file) {
  return {file, kCudaLibraries + file};
}

// Opens the library and fills a table with `bind`.
template <typename Table>
absl::StatusOr<Table> LoadTable(absl::Span<const std::string> names, const std::string& needed_for,
                                absl::Status (*bind)(const SharedLibrary&, Table&)) {
  DPIPE_ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open(names, needed_for));
  Table table;
  DPIPE_RETURN_IF_ERROR(bind(library, table));
  return table;
}

// Returns a pointer to the table in `loaded`, which must be a function-local static.
template <typename Table>
absl::StatusOr<const Table*> PointerOrStatus(const absl::StatusOr<Table>& loaded) {
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

}  // namespace dpipe

#endif  // DPIPE_CORE_CUDA_FUNCTION_TABLE_H_
