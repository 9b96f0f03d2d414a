#ifndef KILN_CLIENT_PYTHON_NATIVE_LENDING_H_
#define KILN_CLIENT_PYTHON_NATIVE_LENDING_H_

/* The framework's memory as what kiln.h borrows: on CUDA its caching allocator,
 * on its current stream, so that one pool serves both. */

#include "client/c_api/kiln.h"
#include "client/python/native/dlpack_abi.h"

/* Makes `allocator` lend memory of `exchange` on CUDA device `ordinal`. The
 * functions need no GIL and are thread-safe. `exchange` lives for ever. */
void kiln_lend(const DlpackExchange* exchange, int ordinal,
               KilnAllocator* allocator);

/* The handle (making.h) of the tensor of bytes whose memory was lent and starts
 * there, as long as it is lent; NULL where there is none. */
void* kiln_lent_tensor(const void* memory);

#endif /* KILN_CLIENT_PYTHON_NATIVE_LENDING_H_ */
