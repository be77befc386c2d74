// Who is signed in, and what that caller may do. Buttons a caller may not use are not drawn; the server refuses them anyway.
import { computed, signal } from "@preact/signals";
import { get, request, whenSignedOut } from "./api.js";

export const session = signal(null);
export const signedOut = signal(false);

// Whether the caller sees all jobs; others see lists of their own jobs, and no counts of phases.
export const seesAll = computed(() => session.value?.sees?.startsWith("all") ?? true);
export const can = (role) => session.value?.roles.includes(role) ?? false;

export async function readSession() {
  try {
    session.value = await get("/v1/session", { quiet: true });
    signedOut.value = false;
  } catch (problem) {
    if (problem.status === 401) signedOut.value = true;
    else throw problem;
  }
}

export async function signIn(token) {
  await request("POST", "/v1/session", { body: { token }, quiet: true });
  await readSession();
}

export async function signOut() {
  await request("DELETE", "/v1/session", { quiet: true });
  session.value = null;
  signedOut.value = true;
}

whenSignedOut.call = () => {
  session.value = null;
  signedOut.value = true;
};
