#ifndef KILN_CLIENT_PYTHON_NATIVE_REFUSAL_H_
#define KILN_CLIENT_PYTHON_NATIVE_REFUSAL_H_

#ifdef __cplusplus
extern "C" {
#endif

/* What the framework said when it gave a run no memory: the run itself knows
 * only that there was none. A run asks on the thread that called it, and so the
 * words are that thread's.
 *
 * Before a run. */
void kiln_refusal_forget(void);

/* Keeps `words`, the first of a run: who passes a refusal on knows less of it.
 * Needs no GIL. */
void kiln_refusal_note(const char* words);

/* Keeps the words of the exception that a refused request left set, if any, and
 * clears it: a dispatch mode has Python between the request and the memory. The
 * run goes on, and may yet be given memory. Takes the GIL. */
void kiln_refusal_note_raised(void);

/* Raises what the framework would have: torch.OutOfMemoryError, or for an error
 * that only came to light there (a device-side assert) RuntimeError. 0 when
 * nothing was noted. Needs the GIL. */
int kiln_refusal_raise(void);

#ifdef __cplusplus
}
#endif

#endif /* KILN_CLIENT_PYTHON_NATIVE_REFUSAL_H_ */
